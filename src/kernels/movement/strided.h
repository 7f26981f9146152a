// Copies an n-dimensional box between two strided layouts: the engine under Transpose, Slice, Expand, Tile, DepthToSpace, ...
#ifndef TENON_KERNELS_MOVEMENT_STRIDED_H_
#define TENON_KERNELS_MOVEMENT_STRIDED_H_

#include <cstdint>

#include "hw/team.h"
#include "kernels/movement/element.h"

namespace tenon::kernels::movement {

/// dst[sum i_k*dst_stride_k] = src[sum i_k*src_stride_k] for all 0 <= i_k < extent_k. Strides count elements and may be
/// negative, or 0 in the source (broadcast). The caller has checked that everything lies inside both tensors.
class StridedCopy {
 public:
  static constexpr int kMaxDims = 2 * kMaxRank;

  /// Appends an inner dimension.
  void Add(int64_t extent, int64_t dst_stride, int64_t src_stride) {
    CHECK(rank_ < kMaxDims);
    dims_[rank_++] = {extent, dst_stride, src_stride};
  }
  void Run(void* dst, const void* src, int size, hw::Team& team);

 private:
  struct Dimension {
    int64_t extent, dst, src;
  };
  bool Collapse();
  bool Widen(int* size);
  int TransposeAxis() const;
  void RunRows(char* dst, const char* src, int size, hw::Team& team) const;
  void RunTransposed(char* dst, const char* src, int size, int axis, hw::Team& team) const;
  template <typename F>
  void ForOuter(int outer_rank, int64_t begin, int64_t end, F&& f) const;

  Dimension dims_[kMaxDims];
  int rank_ = 0;
};

/// Row-major strides of `shape`.
void RowMajorStrides(const Shape& shape, int64_t* strides);

}  // namespace tenon::kernels::movement

#endif  // TENON_KERNELS_MOVEMENT_STRIDED_H_
