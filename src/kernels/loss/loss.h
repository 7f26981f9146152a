// Classification losses.
//
//   NegativeLogLikelihoodLoss   x [n, c, d...] of log-probabilities, target [n, d...], weight? [c]
//   SoftmaxCrossEntropyLoss     the same on scores, with log-softmax over axis 1; second output: the log-probabilities
//   loss[i] = -w[t] * x[i, t], t = target[i]; 0 where t is ignore_index. reduction mean divides by the sum of the weights used.
#ifndef TENON_KERNELS_LOSS_LOSS_H_
#define TENON_KERNELS_LOSS_LOSS_H_

#include "kernels/kernel.h"

namespace tenon::kernels::loss {

std::span<const OpKernels> Operators();

enum class Reduction { kNone, kSum, kMean };

struct Params {
  bool softmax = false;
  Reduction reduction = Reduction::kMean;
  std::optional<int64_t> ignore_index;
};
Result<Params> ParseParams(std::string_view op, const Attrs& attrs);

}  // namespace tenon::kernels::loss

#endif  // TENON_KERNELS_LOSS_LOSS_H_
