// Makers of the rows of this family, and the one check of indices that all of them use.
#ifndef TENON_KERNELS_GATHER_SCATTER_INTERNAL_H_
#define TENON_KERNELS_GATHER_SCATTER_INTERNAL_H_

#include "kernels/gather_scatter/gather_scatter.h"

namespace tenon::kernels::gather_scatter {

Result<std::unique_ptr<Kernel>> MakeGather(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeGatherElements(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeGatherND(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeScatterElements(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeScatterND(const Problem& problem);

/// dst[k] = reduce(dst[k], src[k]) for k < n.
using ReduceRun = void (*)(void* dst, const void* src, int64_t n);
enum class Reduction { kNone, kAdd, kMul, kMax, kMin };
Result<Reduction> ParseReduction(std::string_view op, const Attrs& attrs);
/// nullptr when the type has no such reduction (kNone included: that one copies).
ReduceRun FindReduce(Reduction reduction, DType dtype);

/// Extents of `small` are at most those of `large` except along `axis`; of symbols, as far as they are numbers.
Status CheckInside(std::string_view op, const Shape& small, const Shape& large, int axis);
Status CheckInside(std::string_view op, const SymShape& small, const SymShape& large, int axis);

/// Positions [begin, end) in row-major order over `walk`, in pieces of its last axis: f(position, n, offset) where offset is the
/// first position's offset in a tensor of shape `data` with the component of `axis` left out; the next ones' step by
/// LastStep(walk, axis).
template <typename F>
void WalkWithoutAxis(const Shape& walk, const Shape& data, int axis, int64_t begin, int64_t end, F&& f) {
  const int last = walk.rank() - 1;
  int64_t stride[kMaxRank];
  int64_t index[kMaxRank];
  int64_t s = 1;
  for (int i = last; i >= 0; --i) {
    stride[i] = i == axis ? 0 : s;
    s *= data[i];
  }
  int64_t offset = 0;
  int64_t rest = begin;
  for (int i = last; i >= 0; --i) {
    index[i] = rest % walk[i];
    rest /= walk[i];
    offset += index[i] * stride[i];
  }
  for (int64_t p = begin; p < end;) {
    const int64_t n = walk[last] - index[last] < end - p ? walk[last] - index[last] : end - p;
    f(p, n, offset);
    p += n;
    if (p >= end) return;
    offset -= index[last] * stride[last];
    index[last] = 0;
    for (int i = last - 1; i >= 0; --i) {
      offset += stride[i];
      if (++index[i] < walk[i]) break;
      offset -= walk[i] * stride[i];
      index[i] = 0;
    }
  }
}
inline int64_t LastStep(const Shape& walk, int axis) {
  return axis == walk.rank() - 1 ? 0 : 1;
}

inline Status IndexError(std::string_view op, int64_t index, int64_t position, int64_t extent) {
  if (extent == 0) return BadInput("{}: index {} at position {} into an axis of extent 0", op, index, position);
  return BadInput("{}: index {} at position {} is outside [{}, {}]", op, index, position, -extent, extent - 1);
}

inline bool InRange(int64_t index, int64_t extent) {
  return static_cast<uint64_t>(index) + static_cast<uint64_t>(extent) < 2 * static_cast<uint64_t>(extent);
}

/// All of `indices` lie in [-extent, extent).
Status CheckIndices(std::string_view op, const View& indices, int64_t extent);
/// The same in a rule, for few known indices and a known extent.
Status CheckKnownIndices(std::string_view op, const ValueInfo& indices, const Dim& extent);
/// Indices are int32 or int64 (a rule's check).
Status CheckIndexType(std::string_view op, const ValueInfo& indices);

}  // namespace tenon::kernels::gather_scatter

#endif  // TENON_KERNELS_GATHER_SCATTER_INTERNAL_H_
