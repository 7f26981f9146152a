// The part of a convolution's input that is read, as bytes, channels last, with the zero point where it reaches beyond the edges.
#ifndef TENON_KERNELS_QUANTIZE_PICTURE_H_
#define TENON_KERNELS_QUANTIZE_PICTURE_H_

#include "kernels/conv/plane.h"
#include "kernels/quantize/fused.h"

namespace tenon::kernels::quantize {

class Picture {
 public:
  Picture() = default;
  /// `channels_first`: of the input. `subsampled`: only every stride-th pixel, for windows of one pixel.
  Picture(const conv::Plane& plane, bool channels_first, DType type, bool subsampled);

  /// The input can be read where it lies.
  bool in_place() const { return in_place_; }
  int64_t extent(int axis) const { return extents_[axis]; }
  /// Lays it out at `to`, [n, extents, c].
  void Fill(const void* x, const Grid& grid, hw::IsaMask isa, uint8_t* to, hw::Team& team) const;

 private:
  void Line(const std::byte* x, const Grid& grid, hw::IsaMask isa, int64_t line, uint8_t* to) const;

  conv::Plane p_;
  bool channels_first_ = false, in_place_ = false;
  DType type_ = DType::kU8;
  int64_t extents_[3] = {1, 1, 1};
  int64_t step_[3] = {1, 1, 1};
};

/// to[image][c][r] = from[image][r][c] of elements of `size` bytes (1, 2 or 4).
void TurnImages(const void* from, int64_t images, int64_t rows, int64_t cols, int size, void* to, hw::Team& team);

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_PICTURE_H_
