// Convolution as a matrix product that never writes its matrix: the micro-kernels of gemm/ read the input where it lies.
//
// A tile is a few neighbouring output pixels by one panel of output channels. Inside the picture its rows are a constant stride
// apart and each kernel row is one contiguous run of kernel_w * c floats. At the borders each (tap, pixel) has a pointer, to
// zeros where it falls outside; with very few channels the border tile is copied out instead.
#ifndef TENON_KERNELS_CONV_IMPLICIT_H_
#define TENON_KERNELS_CONV_IMPLICIT_H_

#include <vector>

#include "kernels/conv/plane.h"
#include "kernels/gemm/gemm.h"

namespace tenon::kernels::conv {

class Implicit {
 public:
  Implicit() = default;
  Implicit(const gemm::MicroKernels& kernels, const Plane& plane, int threads);

  /// Bytes that Run needs for all threads.
  size_t scratch_bytes() const { return static_cast<size_t>(threads_) * slot_bytes_; }

  struct Operands {
    const float* x;           ///< [n, in..., c]
    const float* packed;      ///< from PackWeights
    float* y;                 ///< [n, out..., oc]
    const float* bias;        ///< [oc] or null
    const float* residual;    ///< like y, or null; may be y
  };
  void Run(const Operands& o, const gemm::Activation& activation, std::byte* scratch, hw::Team& team) const;

 private:
  struct TileRef {
    const float* a;
    const float* const* rows;
    int64_t pixel;
    int count;
    bool copied;
  };
  void RunTiles(const Operands& o, const gemm::Clamp& clamp, int64_t t0, int64_t t1, int64_t p0, int64_t p1,
                std::byte* scratch) const;
  struct At;
  int64_t PixelOf(int64_t tile) const;
  At Coordinates(int64_t pixel) const;
  void Advance(At* at, int64_t pixels) const;
  TileRef Prepare(const float* x, const At& at, int64_t pixel, int64_t rows, const float* zeros, const float** pointers,
                  float* copy) const;
  void FillPointers(const float* x, At at, int64_t rows, const float* zeros, const float** to) const;
  void FillCopy(const float* x, At at, int64_t rows, float* to) const;

  const gemm::MicroKernels* kernels_ = nullptr;
  Plane p_;
  int threads_ = 1;
  int64_t max_rows_ = 1;
  bool by_line_ = false;           ///< tiles stay within a line of outputs
  bool copy_borders_ = false;
  int64_t tiles_ = 0;
  int64_t tiles_per_line_ = 1;
  int64_t block_ = 1;              ///< tiles prepared together, then run for every panel
  size_t slot_bytes_ = 0;
  std::vector<int64_t> tap_offsets_;   ///< of inner tiles, floats
  int64_t run_ = 0;                    ///< depth of one of those taps
};

/// Weights [oc, c/group, kernel...] as panels of [taps * c/group][ocg], one set per group.
int64_t PackedWeightFloats(const gemm::MicroKernels& kernels, int64_t oc, int64_t icg, int64_t taps, int64_t group);
void PackWeights(const gemm::MicroKernels& kernels, const float* w, int64_t oc, int64_t icg, int64_t taps, int64_t group,
                 float* packed);

}  // namespace tenon::kernels::conv

#endif  // TENON_KERNELS_CONV_IMPLICIT_H_
