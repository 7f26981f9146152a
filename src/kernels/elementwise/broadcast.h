// Broadcasting: which shape comes out, and how to walk the operands with as few and as long rows as possible.
#ifndef TENON_KERNELS_ELEMENTWISE_BROADCAST_H_
#define TENON_KERNELS_ELEMENTWISE_BROADCAST_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/dim.h"
#include "base/shape.h"
#include "base/status.h"

namespace tenon::kernels::elementwise {

/// Multidirectional (NumPy) broadcast of two shapes; unknown rank when one of them has it. kBadInput names both shapes.
Result<SymShape> BroadcastSym(std::string_view op, const SymShape& a, const SymShape& b);
/// The same for numbers.
Result<Shape> BroadcastShapes(std::string_view op, const Shape& a, const Shape& b);

inline constexpr int kMaxOperands = 16;

/// Loop nest over an output of `rank` >= 1 collapsed dimensions, outermost first. Operand i's element for output index x is at
/// sum_d x[d]*stride[i][d]. The innermost stride of every operand is 0 or 1; dense operands have the output's own strides.
struct BroadcastPlan {
  int operands = 0;
  int rank = 0;
  int64_t total = 0;
  int64_t dims[kMaxRank];
  int64_t stride[kMaxOperands][kMaxRank];

  int64_t inner() const { return dims[rank - 1]; }
  int64_t inner_stride(int i) const { return stride[i][rank - 1]; }
};

/// `shapes` broadcast to `out` (checked by the shape rule: every extent is 1 or the output's). At most kMaxOperands.
void MakePlan(std::span<const Shape* const> shapes, const Shape& out, BroadcastPlan* plan);

/// Calls f(out_offset, n, offsets) for the rows that make up output elements [begin, end); offsets[i] is operand i's first
/// element and operand i advances by plan.inner_stride(i) within the row.
template <typename F>
void ForEachRow(const BroadcastPlan& plan, int64_t begin, int64_t end, F&& f) {
  if (begin >= end) return;  // nothing to walk; extents may be 0
  int64_t index[kMaxRank];
  int64_t offsets[kMaxOperands];
  const int last = plan.rank - 1;
  int64_t rest = begin;
  for (int d = last; d >= 0; --d) {
    index[d] = rest % plan.dims[d];
    rest /= plan.dims[d];
  }
  for (int i = 0; i < plan.operands; ++i) {
    offsets[i] = 0;
    for (int d = 0; d <= last; ++d) offsets[i] += index[d] * plan.stride[i][d];
  }
  for (int64_t at = begin; at < end;) {
    const int64_t n = std::min(plan.dims[last] - index[last], end - at);
    f(at, n, static_cast<const int64_t*>(offsets));
    at += n;
    if (at >= end) return;
    // The row is complete here: step back to its start and carry into the outer dimensions.
    for (int i = 0; i < plan.operands; ++i) offsets[i] -= index[last] * plan.stride[i][last];
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      for (int i = 0; i < plan.operands; ++i) offsets[i] += plan.stride[i][d];
      if (++index[d] < plan.dims[d]) break;
      for (int i = 0; i < plan.operands; ++i) offsets[i] -= plan.stride[i][d] * plan.dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_BROADCAST_H_
