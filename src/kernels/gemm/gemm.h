// Single-precision matrix products for every family that needs one: C[m, n] = epilogue(A[m, k] * B[k, n]).
//
// B is packed once into panels; A is read where it lies, through row strides or row pointers, so that nothing depends on m and
// a convolution is the same kernel with several taps. All pointers are to float; strides count floats.
//
//   epilogue: act(sum + bias[n] + residual[m, n]) as in gemm/activation.h
//
// Accumulation is f32 in ascending k. The result of one row does not depend on the other rows or on the number of threads.
#ifndef TENON_KERNELS_GEMM_GEMM_H_
#define TENON_KERNELS_GEMM_GEMM_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "hw/isa.h"
#include "hw/team.h"
#include "kernels/gemm/act.h"
#include "kernels/gemm/tile.h"

namespace tenon::kernels::gemm {

/// The micro-kernels for `isa`; the same object for the life of the process. Baseline always exists.
const MicroKernels& Select(hw::IsaMask isa);

/// How n columns are cut into panels of 1 to max_vectors vectors, as equal as possible, wider ones first.
struct Panels {
  Panels(const MicroKernels& kernels, int64_t n);
  int64_t count;     ///< number of panels
  int64_t base;      ///< vectors of a narrow panel
  int64_t wide;      ///< panels [0, wide) have base + 1 vectors
  int64_t vectors(int64_t p) const { return p < wide ? base + 1 : base; }
  int64_t first_vector(int64_t p) const { return p * base + (p < wide ? p : wide); }
};

/// Floats that Pack writes for a k x n matrix.
int64_t PackedFloats(const MicroKernels& kernels, int64_t k, int64_t n);

/// `floats` rounded up to whole 64-byte lines: how callers lay parts of their scratch and packed weights side by side.
int64_t AlignFloats(int64_t floats);

/// Packs alpha * B for `kernels`; B[k][n] at b[k * k_stride + n * n_stride]. `packed` 64-byte aligned for best speed.
void Pack(const MicroKernels& kernels, const float* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, float alpha,
          float* packed);
/// The part of Pack for panels [begin, end), so that threads can share the work.
void PackPanels(const MicroKernels& kernels, const float* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride,
                float alpha, float* packed, int64_t begin, int64_t end);

/// How `rows` rows are cut into tiles of at most `max_rows`, as equal as possible, taller ones first.
struct RowTiles {
  RowTiles(int64_t rows, int64_t max_rows);
  int64_t count, base, tall;
  int64_t rows(int64_t i) const { return i < tall ? base + 1 : base; }
  int64_t first(int64_t i) const { return i * base + (i < tall ? i : tall); }
};

/// An activation cut into the clamp that a micro-kernel does and what `activate` does afterwards.
struct Clamp {
  explicit Clamp(const Activation& f);
  float lo = -std::numeric_limits<float>::infinity();
  float hi = std::numeric_limits<float>::infinity();
  Activation rest;
  bool needs_rest = false;
};

/// Floats of A that a block of rows may hold. Each panel of B reads the block once, so it should stay in the L2 cache; when B
/// itself is small and stays there, a block small enough to be in the L1 cache half of the time is better.
int64_t BlockFloats(int64_t b_floats);

/// How a product of tiles x panels is shared among threads: rows * columns <= threads parts.
struct Grid {
  int64_t rows, columns;
};
Grid ChooseGrid(int64_t tiles, int64_t panels, int64_t a_floats, int64_t b_floats, int threads);

struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;              ///< floats from row to row of A; rows are contiguous
  const float* b = nullptr;          ///< from Pack; or row-major B when b_stride > 0
  int64_t b_stride = 0;              ///< 0: packed. Else floats from row to row of a plain B; needs n % lanes == 0
  float* c = nullptr;
  int64_t c_stride = 0;
  const float* bias = nullptr;       ///< [n] or null
  const float* residual = nullptr;   ///< [m, n] or null; may be C itself
  int64_t residual_stride = 0;
  Activation activation;
};

/// On the calling thread. m, n or k of zero are fine.
void Run(const MicroKernels& kernels, const Gemm& gemm);
/// Rows [m0, m1), panels [p0, p1) only.
void RunPart(const MicroKernels& kernels, const Gemm& gemm, int64_t m0, int64_t m1, int64_t p0, int64_t p1);
/// Shared out over rows or columns, whichever balances; small products stay on the calling thread.
void RunParallel(const MicroKernels& kernels, const Gemm& gemm, hw::Team& team);

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_GEMM_H_
