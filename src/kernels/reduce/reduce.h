// Reductions over axes: ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceLogSum,
// ReduceLogSumExp, ReduceSumSquare (opset 18/20: axes are input 1), ArgMax, ArgMin (opset 13).
//
// Empty sets: Sum, L1, L2, SumSquare 0; Prod 1; Max the least value of the type (-inf for floats), Min the greatest;
// LogSum, LogSumExp -inf; Mean NaN (an error for integers). NaN in a Max or Min gives NaN. Integer sums wrap.
// f16 and bf16 accumulate wider and round once.
#ifndef TENON_KERNELS_REDUCE_REDUCE_H_
#define TENON_KERNELS_REDUCE_REDUCE_H_

#include <cstdint>
#include <span>

#include "kernels/kernel.h"
#include "kernels/reduce/inner.h"

namespace tenon::kernels::reduce {

struct ReduceParams {
  Kind kind = Kind::kSum;
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct ArgParams {
  bool max = true;
  int64_t axis = 0;
  bool keepdims = true;
  bool select_last_index = false;
};

Result<ReduceParams> ParseReduce(std::string_view op, const Attrs& attrs);
Result<ArgParams> ParseArg(std::string_view op, const Attrs& attrs);

/// Bit i set: axis i is reduced. `axes` absent (nullptr) or empty means all axes, or none with `noop`.
Result<uint32_t> AxesMask(const std::vector<int64_t>* axes, int rank, bool noop);
/// The same with axes read from input 1 of a run.
Result<uint32_t> AxesMask(const ReduceParams& params, const RunArgs& args);
Shape ReducedShape(const Shape& in, uint32_t mask, bool keepdims);

Status RunReduceReference(const ReduceParams& params, const RunArgs& args);
Status RunArgReference(const ArgParams& params, const RunArgs& args);

/// The shape of one f32 reduction after merging axes: x[outer][reduce][inner] -> y[outer][inner].
struct Collapsed {
  int64_t outer = 1, reduce = 1, inner = 1;
};

/// y[outer][inner] = reduction of x, finished (divided, rooted, ...), with the team. Used by pooling too.
void ReduceF32(const ReduceInner& inner, Kind kind, const Collapsed& c, const float* x, float* y, hw::Team& team);

/// x[outer][lead][kept][reduce] -> y[outer][kept], over lead and reduce. Not for kLogSumExp.
void ReduceAroundF32(const ReduceInner& inner, Kind kind, int64_t outer, int64_t lead, int64_t kept, int64_t reduce,
                     const float* x, float* y, hw::Team& team);

std::span<const OpKernels> Operators();

}  // namespace tenon::kernels::reduce

#endif  // TENON_KERNELS_REDUCE_REDUCE_H_
