// Makers of the rows of this family, and the one check of indices that all of them use.
#ifndef TENON_KERNELS_GATHER_SCATTER_INTERNAL_H_
#define TENON_KERNELS_GATHER_SCATTER_INTERNAL_H_

#include "kernels/gather_scatter/gather_scatter.h"

namespace tenon::kernels::gather_scatter {

Result<std::unique_ptr<Kernel>> MakeGather(const Problem& problem);

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
