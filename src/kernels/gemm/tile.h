// The micro-kernel contract: one tile of C, at most kMaxRows rows by one panel of columns. Plain types only, because files
// compiled for an instruction set include it.
#ifndef TENON_KERNELS_GEMM_TILE_H_
#define TENON_KERNELS_GEMM_TILE_H_

#include <cstdint>

namespace tenon::kernels::gemm {

struct Activation;

inline constexpr int kMaxRows = 12;
inline constexpr int kMaxVectors = 4;

/// C[r][c] (+)= sum over taps t and depth k of A[t][r][k] * B[t * depth + k][c].
/// Row r of tap t starts at rows[t * mr + r], or without `rows` at a + tap_offsets[t] + r * a_stride (no tap_offsets: 0).
struct Tile {
  const float* a;
  int64_t a_stride;
  const int64_t* tap_offsets;
  const float* const* rows;
  int64_t taps;
  int64_t depth;
  const float* b;
  int64_t b_step;             ///< floats from one k to the next
  float* c;
  int64_t c_stride;
  const float* bias;          ///< null: 0
  const float* residual;      ///< null: none
  int64_t residual_stride;
  int64_t n;                  ///< columns that exist: (vectors - 1) * lanes < n <= vectors * lanes
  float lo, hi;               ///< the result is clamped to [lo, hi]
  bool accumulate;            ///< start from C instead of bias
};

using TileKernel = void (*)(const Tile&);

struct MicroKernels {
  const char* name;
  int lanes;
  int max_vectors;
  int max_rows[kMaxVectors + 1];                       ///< by vectors per panel
  TileKernel tile[kMaxVectors + 1][kMaxRows + 1];      ///< [vectors][rows]; null beyond the maxima
  /// Applies `f` to rows x n elements in place.
  void (*activate)(const Activation& f, float* c, int64_t rows, int64_t n, int64_t c_stride);
  /// to[k][0..width) = alpha * from[k * k_stride + n * n_stride], columns beyond n zero; width = vectors * lanes.
  void (*pack_panel)(const float* from, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, float alpha, float* to,
                     int64_t width);
  /// The same for contiguous columns, n_stride apart, whose element o * taps + t goes to row t * (k / taps) + o of the panel.
  void (*pack_columns)(const float* from, int64_t k, int64_t n, int64_t n_stride, float alpha, int64_t taps, float* to,
                       int64_t width);
};

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_TILE_H_
