// Winograd's F(4x4, 3x3) for windows of 3 x 3, stride 1: 36 products of [tiles, c] x [c, oc] instead of 144 multiplications an
// output tile. f32 throughout; its rounding error is a few times that of the direct sum.
#ifndef TENON_KERNELS_CONV_WINOGRAD_H_
#define TENON_KERNELS_CONV_WINOGRAD_H_

#include "kernels/conv/implicit.h"
#include "kernels/conv/winograd_tile.h"

namespace tenon::kernels::conv {

class Winograd {
 public:
  Winograd() = default;
  Winograd(const gemm::MicroKernels& kernels, const WinogradKernels& transforms, const Plane& plane, int threads);

  /// Whether the shape is served and likely faster than the direct sum.
  static bool Worth(const Plane& plane);

  size_t scratch_bytes() const { return static_cast<size_t>(threads_) * slot_floats_ * sizeof(float); }
  /// `o.packed` from PackWinograd.
  void Run(const Implicit::Operands& o, const gemm::Activation& activation, std::byte* scratch, hw::Team& team) const;

 private:
  void RunBlock(const Implicit::Operands& o, const gemm::Clamp& clamp, int64_t begin, int64_t end, float* scratch) const;

  const gemm::MicroKernels* kernels_ = nullptr;
  const WinogradKernels* transforms_ = nullptr;
  Plane p_;
  int threads_ = 1;
  int64_t tiles_h_ = 0, tiles_w_ = 0, tiles_ = 0;
  int64_t block_ = 1;
  size_t slot_floats_ = 0;
};

/// Weights [oc, c, 3, 3] as 36 packed matrices [c, oc].
int64_t PackedWinogradFloats(const gemm::MicroKernels& kernels, int64_t oc, int64_t c);
void PackWinograd(const gemm::MicroKernels& kernels, const float* w, int64_t oc, int64_t c, float* packed);

}  // namespace tenon::kernels::conv

#endif  // TENON_KERNELS_CONV_WINOGRAD_H_
