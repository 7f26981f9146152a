#include "guard/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "guard/judge.h"

namespace tenon::guard {
namespace {

using Kind = MetricSpec::Kind;
using Combine = Evaluation::Combine;

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

// Values of resampled rows, combined.
class Resampled {
 public:
  explicit Resampled(Combine how) : how_(how) {}
  void Add(double v) {
    sum_ += v;
    max_ = std::max(max_, v);
    ++count_;
  }
  double Get() const {
    if (count_ == 0) return 0;
    const double mean = sum_ / static_cast<double>(count_);
    return how_ == Combine::kMax ? max_ : how_ == Combine::kRootMean ? std::sqrt(mean) : mean;
  }

 private:
  Combine how_;
  double sum_ = 0;
  double max_ = -std::numeric_limits<double>::infinity();
  size_t count_ = 0;
};

double Relative(double reference, double value, double size, bool higher_is_better) {
  const double lost = higher_is_better ? reference - value : value - reference;
  if (lost == 0 || std::isnan(lost)) return std::isnan(lost) ? std::numeric_limits<double>::infinity() : 0;
  return lost / std::abs(size);   // infinite when there was nothing to lose
}

bool AllOrNothing(const Evaluation& e) {
  return e.combine == Combine::kMean && std::all_of(e.values.begin(), e.values.end(), [](double v) { return v == 0 || v == 1; });
}

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

double Combined(const std::vector<double>& values, Combine how) {
  Resampled all(how);
  for (double v : values) all.Add(v);
  return all.Get();
}

Result<Drop> Compare(const Evaluation& reference, const Evaluation& value) {
  const size_t n = value.values.size();
  if (reference.metric != value.metric || reference.values.size() != n)
    return Internal("two evaluations on different samples were compared: {} and {} rows", reference.values.size(), n);
  Drop drop;
  drop.metric = value.metric;
  drop.reference = reference.value;
  drop.value = value.value;
  drop.rows = n;
  const bool sized = !value.sizes.empty();
  const bool higher = value.higher_is_better;
  const double size = sized ? Combined(value.sizes, value.combine) : reference.value;
  drop.relative = Relative(drop.reference, drop.value, size, higher);
  drop.low = drop.high = drop.relative;
  if (n > 0 && AllOrNothing(reference) && AllOrNothing(value)) drop.step = Relative(1, 0, size * static_cast<double>(n), true);
  if (n < 2) return drop;
  constexpr int kResamples = 1000;
  std::vector<double> drops;
  std::mt19937_64 random(42);
  for (int k = 0; k < kResamples; ++k) {
    Resampled was(reference.combine);
    Resampled is(value.combine);
    Resampled of(value.combine);
    for (size_t i = 0; i < n; ++i) {
      const size_t pick = random() % n;
      was.Add(reference.values[pick]);
      is.Add(value.values[pick]);
      if (sized) of.Add(value.sizes[pick]);
    }
    drops.push_back(Relative(was.Get(), is.Get(), sized ? of.Get() : was.Get(), higher));
  }
  std::sort(drops.begin(), drops.end());
  drop.low = drops[static_cast<size_t>(kResamples * 0.025)];
  drop.high = drops[static_cast<size_t>(kResamples * 0.975) - 1];
  return drop;
}

}  // namespace tenon::guard
