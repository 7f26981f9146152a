// Scores of classes, and how clearly they choose.
#ifndef TENON_GUARD_SCORES_H_
#define TENON_GUARD_SCORES_H_

#include <span>
#include <vector>

#include "tenon/session.h"

namespace tenon::guard {

/// Scores of one run, [rows, positions, classes]. Integer outputs are classes already: `classes` is 0 then.
struct Scores {
  std::vector<double> values;
  int64_t rows = 1;
  int64_t positions = 1;
  int64_t classes = 0;

  std::span<const double> At(int64_t row, int64_t position) const {
    const auto n = static_cast<size_t>(std::max<int64_t>(classes, 1));
    return std::span(values).subspan(static_cast<size_t>(row * positions + position) * n, n);
  }
};
/// kUnsupported: `output` holds no numbers; kUsage: floats without two classes or more.
Result<Scores> ScoresOf(const HostTensor& output, int64_t rows);

/// The class of the highest score, the first of equals; -1 when it is no number.
int64_t BestClass(const Scores& scores, int64_t row, int64_t position);

/// Margin::lead of `label` being among the `k` highest; minus infinity for a label that is no class.
double LeadOf(std::span<const double> scores, int64_t label, int64_t k);

/// Margin::lead of CTC's greedy decoding of a row into `wanted`. Above 0: by so much the scores of one position must change
/// against each other for another result; below: so much is missing at the worst position of the best way to have it.
double CtcLead(const Scores& scores, int64_t row, std::span<const int64_t> wanted);

/// Repeated classes once, then without class 0.
std::vector<int64_t> CtcDecode(std::vector<int64_t> path);

}  // namespace tenon::guard

#endif  // TENON_GUARD_SCORES_H_
