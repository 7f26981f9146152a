// One model, some samples: how good its outputs are, and how far from the reference's.
#ifndef TENON_GUARD_ASSESS_H_
#define TENON_GUARD_ASSESS_H_

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "guard/metrics.h"

namespace tenon::guard {

struct Assessment {
  Evaluation evaluation;
  /// Root mean square of (output - reference) over that of the reference, the worst float output's; infinity where an output
  /// has another shape or is not finite where the reference's is.
  double error = 0;
};

/// Like Evaluate, with the distance from the reference besides. `references` is needed.
Result<Assessment> Assess(Session& session, DataSet& data, std::span<const size_t> samples, const MetricSpec& metric,
                          References& references, const RunOptions& run);

/// Median time of a run, and of each operator of the model by name (casts that serve it included), in microseconds.
struct Times {
  double run_us = 0;
  std::map<std::string, double> nodes_us;
};
Result<Times> Measure(Session& session, DataSet& data, std::span<const size_t> samples, int rounds, const RunOptions& run);

/// Median times of two sessions on the same inputs, run in turn: what a faster one gains beyond the machine's noise.
struct Duel {
  double first_us = 0;
  double second_us = 0;
  double ratio = 1;   ///< the second's time to the first's: the median of the rounds' own, which a busy machine disturbs least
  double noise = 0;   ///< relative, of the ratio: twice the standard error of a median, from the rounds' deviations
  bool second_is_faster() const { return ratio < 1 - noise; }
  bool decided() const { return std::abs(ratio - 1) > noise; }
};
Result<Duel> Race(Session& first, Session& second, DataSet& data, std::span<const size_t> samples, int rounds,
                  const RunOptions& run);

}  // namespace tenon::guard

#endif  // TENON_GUARD_ASSESS_H_
