// Softmax, LogSoftmax, Hardmax (opset 13: along one axis, default the last).
//
//   Softmax     y = exp(x - max) / sum(exp(x - max))
//   LogSoftmax  y = x - max - log(sum(exp(x - max)))
//   Hardmax     y = 1 at the first greatest element, 0 elsewhere
// A row of -inf alone, or with a NaN or +inf, gives NaN. f16 and bf16 accumulate wider and round once.
#ifndef TENON_KERNELS_SOFTMAX_SOFTMAX_H_
#define TENON_KERNELS_SOFTMAX_SOFTMAX_H_

#include <span>

#include "kernels/kernel.h"
#include "kernels/softmax/inner.h"

namespace tenon::kernels::softmax {

struct SoftmaxParams {
  Kind kind = Kind::kSoftmax;
  int64_t axis = -1;
};

Result<SoftmaxParams> ParseSoftmax(std::string_view op, const Attrs& attrs);
Status RunSoftmaxReference(const SoftmaxParams& params, const RunArgs& args);

std::span<const OpKernels> Operators();

}  // namespace tenon::kernels::softmax

#endif  // TENON_KERNELS_SOFTMAX_SOFTMAX_H_
