#include "guard/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "guard/judge.h"
#include "guard/values.h"

namespace tenon::guard {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastProbability = 1e-12;

bool AreProbabilities(std::span<const double> scores) {
  double sum = 0;
  for (const double s : scores) {
    if (!(s >= 0 && s <= 1)) return false;
    sum += s;
  }
  return std::abs(sum - 1) < 1e-2;   // bf16 adds up to no more
}

// How far apart two scores are; of probabilities, their logarithms, which a change of the model moves alike at all sizes.
class Distance {
 public:
  explicit Distance(std::span<const double> scores) : logarithms_(AreProbabilities(scores)) {}
  double operator()(double high, double low) const {
    if (high == low) return 0;
    return logarithms_ ? std::log(std::max(high, kLeastProbability) / std::max(low, kLeastProbability)) : high - low;
  }

 private:
  bool logarithms_;
};

// The classes of highest scores at one position, falling.
std::vector<int64_t> Highest(std::span<const double> scores, size_t count) {
  std::vector<int64_t> classes(scores.size());
  std::iota(classes.begin(), classes.end(), int64_t{0});
  const auto end = classes.begin() + static_cast<std::ptrdiff_t>(std::min(count, classes.size()));
  std::partial_sort(classes.begin(), end, classes.end(),
                    [&](int64_t a, int64_t b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; });
  classes.erase(end, classes.end());
  return classes;
}

// What paths lack, at their worst position, against the highest scores: the least of those that CTC decodes to `wanted`, and of
// all others. States are the classes of `wanted` with a blank before, between and after them: where a path stands that agrees so
// far; one that differed may go on along the highest scores.
struct Lacking {
  double wanted = 0;
  double other = std::numeric_limits<double>::infinity();
};
Lacking LackingOf(const Scores& scores, int64_t row, std::span<const int64_t> wanted) {
  const size_t states = 2 * wanted.size() + 1;
  const auto class_of = [&](size_t state) { return state % 2 == 0 ? 0 : wanted[state / 2]; };
  std::vector<double> least(states, kInfinity);
  least[0] = 0;   // before the first position as after a blank
  Lacking lacking;
  for (int64_t t = 0; t < scores.positions; ++t) {
    const auto s = scores.At(row, t);
    const Distance distance(s);
    const std::vector<int64_t> highest = Highest(s, 4);   // at most three classes agree
    const auto lacks = [&](int64_t c) { return distance(s[static_cast<size_t>(highest[0])], s[static_cast<size_t>(c)]); };
    std::vector<double> next(states, kInfinity);
    for (size_t state = 0; state < states; ++state) {
      const size_t blank = state + state % 2;
      const auto go = [&](size_t to) { next[to] = std::min(next[to], std::max(least[state], lacks(class_of(to)))); };
      const bool follows = blank + 1 < states && class_of(blank + 1) != class_of(state);
      go(blank);
      if (state % 2 == 1) go(state);
      if (follows) go(blank + 1);
      const auto differs = std::find_if(highest.begin(), highest.end(), [&](int64_t c) {
        return c != 0 && c != class_of(state) && !(follows && c == class_of(blank + 1));
      });
      if (differs != highest.end()) lacking.other = std::min(lacking.other, std::max(least[state], lacks(*differs)));
    }
    least = std::move(next);
  }
  for (size_t state = 0; state + 2 < states; ++state) lacking.other = std::min(lacking.other, least[state]);
  lacking.wanted = std::min(least[states - 1], states > 1 ? least[states - 2] : kInfinity);
  return lacking;
}

}  // namespace

Result<Scores> ScoresOf(const HostTensor& output, int64_t rows) {
  auto values = Doubles(output);
  if (!values) return Unsupported("output '{}' has no scores that can be compared", output.name);
  Scores s;
  s.values = std::move(*values);
  s.rows = RowsOf(output, rows);
  const bool scores = IsFloat(output.dtype);
  if (scores && (output.shape.empty() || output.shape.back() < 2)) {
    return Usage("output '{}' has no classes along its last axis; NAME@OUTPUT chooses another output", output.name);
  }
  s.classes = scores ? output.shape.back() : 0;
  const auto n = static_cast<int64_t>(s.values.size());
  s.positions = n / s.rows / std::max<int64_t>(s.classes, 1);
  return s;
}

int64_t BestClass(const Scores& scores, int64_t row, int64_t position) {
  const auto s = scores.At(row, position);
  if (scores.classes == 0) return static_cast<int64_t>(s[0]);
  const auto best = std::max_element(s.begin(), s.end());
  return std::isnan(*best) ? -1 : best - s.begin();   // no number, no class
}

double LeadOf(std::span<const double> scores, int64_t label, int64_t k) {
  const auto n = static_cast<int64_t>(scores.size());
  if (label < 0 || label >= n) return -kInfinity;
  if (k >= n) return kInfinity;
  const double own = scores[static_cast<size_t>(label)];
  if (std::isnan(own)) return -kInfinity;
  std::vector<double> others;   // the k highest, falling
  for (int64_t c = 0; c < n; ++c) {
    const double s = scores[static_cast<size_t>(c)];
    if (c == label || (std::ssize(others) == k && !(s > others.back()))) continue;
    if (std::ssize(others) == k) others.pop_back();
    others.insert(std::upper_bound(others.begin(), others.end(), s, std::greater<>()), s);
  }
  return Distance(scores)(own, others.back());
}

double CtcLead(const Scores& scores, int64_t row, std::span<const int64_t> wanted) {
  const auto is_class = [&](int64_t c) { return c > 0 && c < scores.classes; };
  if (!std::all_of(wanted.begin(), wanted.end(), is_class)) return -kInfinity;
  for (int64_t p = 0; p < scores.positions; ++p) {
    const auto s = scores.At(row, p);
    if (std::any_of(s.begin(), s.end(), [](double v) { return std::isnan(v); })) return -kInfinity;
  }
  const Lacking lacking = LackingOf(scores, row, wanted);
  return lacking.other - lacking.wanted;   // one of them is 0
}

std::vector<int64_t> CtcDecode(std::vector<int64_t> path) {
  path.erase(std::unique(path.begin(), path.end()), path.end());
  std::erase(path, 0);
  return path;
}

}  // namespace tenon::guard
