// Operators of two models side by side: what each takes in the one and in the other, with its noise, and what it would take at
// this machine's measured peaks.
#ifndef TENON_TUNE_OP_TIMES_H_
#define TENON_TUNE_OP_TIMES_H_

#include <string>
#include <vector>

#include "guard/data.h"
#include "hw/peaks.h"
#include "tenon/session.h"

namespace tenon::tune {

struct OpTime {
  double us = 0;        ///< median over runs of all its calls in a run
  double noise = 0;     ///< relative: twice the standard error of the median
  std::string kernel;   ///< empty: the model has no operator of this name
  std::string shapes;
};

/// Operators of one name and type; those that a model has only to serve others (casts, layouts) carry names of their own.
struct OpPair {
  std::string name;
  std::string op;
  OpTime before;
  OpTime after;
  double flops = 0;     ///< of a run, in the model after
  double bytes = 0;
  double roof_us = 0;   ///< at the machine's peaks, with the types it computes in after
  bool compute_bound = false;
};

/// Runs both in turn, `rounds` times, in the order of the second's operators; what only the first has comes last.
Result<std::vector<OpPair>> CompareOps(Session& before, Session& after, const std::vector<HostTensor>& inputs, int rounds,
                                       const hw::Peaks& peaks, hw::IsaMask isa, const RunOptions& run);

}  // namespace tenon::tune

#endif  // TENON_TUNE_OP_TIMES_H_
