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

/// For each position of [begin, end) in row-major order over `walk`, calls f(position, offset) where offset is the position's
/// offset in a tensor of shape `data` with the component of `axis` left out.
template <typename F>
void WalkWithoutAxis(const Shape& walk, const Shape& data, int axis, int64_t begin, int64_t end, F&& f) {
  const int rank = walk.rank();
  int64_t stride[kMaxRank];
  int64_t index[kMaxRank];
  int64_t s = 1;
  for (int i = rank - 1; i >= 0; --i) {
    stride[i] = i == axis ? 0 : s;
    s *= data[i];
  }
  int64_t offset = 0;
  int64_t rest = begin;
  for (int i = rank - 1; i >= 0; --i) {
    index[i] = rest % walk[i];
    rest /= walk[i];
    offset += index[i] * stride[i];
  }
  for (int64_t p = begin; p < end; ++p) {
    f(p, offset);
    for (int i = rank - 1; i >= 0; --i) {
      offset += stride[i];
      if (++index[i] < walk[i]) break;
      offset -= walk[i] * stride[i];
      index[i] = 0;
    }
  }
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
