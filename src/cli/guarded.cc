#include "cli/guarded.h"

namespace tenon::cli {

void AddJudgingOptions(CLI::App& app, std::string* metric, double* held_out, uint64_t* seed) {
  app.add_option(
         "--metric", *metric,
         "top1, top5, cosine, rank-agreement, rmse, max-abs, token-agreement, exact-match, ctc-exact-match, or 'cmd COMMAND'")
      ->envname("TENON_METRIC");
  app.add_option("--held-out", *held_out, "Share of the samples that judge, and have no say before")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 0.99))
      ->envname("TENON_HELD_OUT");
  app.add_option("--seed", *seed, "Of the split")->capture_default_str()->envname("TENON_SEED");
}

Result<double> ParseShare(const std::string& text) {
  const bool percent = text.ends_with('%');
  const std::string number = percent ? text.substr(0, text.size() - 1) : text;
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(value >= 0) || value > 1000) {
    return Usage("--max-drop '{}'; allowed: a share, as 0.5% or 0.005", text);
  }
  return percent ? value / 100 : value;
}

void ShowLowering(const guard::LoweringResult& result, const Context& context) {
  if (result.nodes.empty()) return;
  std::vector<std::vector<std::string>> table = {{"node", "operator", "precision", "before us", "after us", "alone: error"}};
  for (const guard::NodeChoice& n : result.nodes) {
    table.push_back({n.name, n.op, n.lowered ? std::string(DTypeName(n.precision)) : "float32",
                     fmt::format("{:.1f}", n.before_us), n.lowered ? fmt::format("{:.1f}", n.after_us) : "-",
                     n.alone_known ? fmt::format("{:.2e}", n.alone_error) : "-"});
  }
  context.Say(Table(table));
  std::vector<std::vector<std::string>> curve = {{"lowered", "estimated ms", "drop %", "what"}};
  for (const guard::Trial& t : result.trials) {
    curve.push_back(
        {std::to_string(t.lowered), fmt::format("{:.3f}", t.estimated_us / 1e3), fmt::format("{:.3f}", 100 * t.drop), t.what});
  }
  context.Say(Table(curve));
}

}  // namespace tenon::cli
