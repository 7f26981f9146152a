// The rows of the matrix that a convolution multiplies, for kernels that copy them: the window of each output pixel, kernel
// positions in order, channels last within each.
#ifndef TENON_KERNELS_CONV_WINDOWS_H_
#define TENON_KERNELS_CONV_WINDOWS_H_

#include "kernels/conv/plane.h"
#include "kernels/gemm/bf16_tile.h"

namespace tenon::kernels::conv {

class WindowRows {
 public:
  /// Of channels [first_channel, first_channel + icg) of `x`, [n, in..., c], bf16 or f32. `plane` and `kernels` stay alive.
  WindowRows(const gemm::Bf16Kernels& kernels, const Plane& plane, const void* x, bool f32, int64_t first_channel);

  /// Bf16Gemm::fill; `context` is a WindowRows.
  static void Fill(const void* context, int64_t row, int64_t count, void* to, int64_t stride);

 private:
  struct At;
  void Advance(At* at, int64_t pixels) const;
  int64_t Stretch(const At& at) const;
  void Inner(const At& at, int64_t count, std::byte* to, int64_t stride, int64_t padded) const;
  std::byte* Window(const At& at, std::byte* to) const;
  std::byte* Line(int64_t offset, int64_t w0, std::byte* to) const;
  std::byte* Zeros(std::byte* to, int64_t count) const;
  std::byte* Runs(int64_t offset, int64_t n, int64_t runs, int64_t step, std::byte* to) const;

  const gemm::Bf16Kernels& kernels_;
  const Plane& p_;
  const std::byte* x_;
  bool f32_;
  bool whole_lines_;    ///< the window's part of a line is one contiguous run
  int64_t w_lo_, w_hi_;   ///< columns of outputs whose windows lie inside the picture
  int64_t bytes_;      ///< of an element that is written
};

}  // namespace tenon::kernels::conv

#endif  // TENON_KERNELS_CONV_WINDOWS_H_
