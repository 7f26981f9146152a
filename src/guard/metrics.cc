#include "guard/metrics.h"

#include "guard/judge.h"

namespace tenon::guard {
namespace {

using Kind = MetricSpec::Kind;

struct KnownMetric {
  const char* name;
  Kind kind;
  bool higher_is_better;
};
constexpr KnownMetric kMetrics[] = {{"top1", Kind::kTop1, true},
                                    {"top5", Kind::kTop5, true},
                                    {"token-agreement", Kind::kTokenAgreement, true},
                                    {"exact-match", Kind::kExactMatch, true},
                                    {"ctc-exact-match", Kind::kCtcExactMatch, true},
                                    {"cosine", Kind::kCosine, true},
                                    {"rank-agreement", Kind::kRankAgreement, true},
                                    {"rmse", Kind::kRmse, false},
                                    {"max-abs", Kind::kMaxAbs, false}};

}  // namespace

Result<MetricSpec> ParseMetric(const std::string& text) {
  MetricSpec spec;
  for (const bool higher : {true, false}) {
    const std::string prefix = higher ? "cmd " : "cmd-lower ";
    if (!text.starts_with(prefix)) continue;
    spec.kind = Kind::kCommand;
    spec.name = "cmd";
    spec.command = text.substr(prefix.size());
    spec.higher_is_better = higher;
    if (spec.command.find_first_not_of(' ') == std::string::npos) return Usage("metric '{}'; names no command", text);
    return spec;
  }
  const size_t at = text.find('@');
  const std::string name = text.substr(0, at);
  if (at != std::string::npos) spec.output = text.substr(at + 1);
  if (name == "perplexity") return Unsupported("metric 'perplexity'; language models are not judged in this version");
  for (const KnownMetric& m : kMetrics) {
    if (name != m.name) continue;
    spec.kind = m.kind;
    spec.name = name;
    spec.higher_is_better = m.higher_is_better;
    return spec;
  }
  std::string known;
  for (const KnownMetric& m : kMetrics) known += std::string(m.name) + ", ";
  return Usage("unknown metric '{}'; allowed: {}'cmd COMMAND', 'cmd-lower COMMAND'", text, known);
}

double Combined(const std::vector<double>& values, Evaluation::Combine how) {
  Combiner all(how);
  for (double v : values) all.Add(v);
  return all.Get();
}

}  // namespace tenon::guard
