#include "cli/guarded.h"

namespace tenon::cli {

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
