// The transforms of Winograd's F(4x4, 3x3) (Lavin and Gray, 2015) on one tile, channels last. Plain types only, because files
// compiled for an instruction set include it.
#ifndef TENON_KERNELS_CONV_WINOGRAD_TILE_H_
#define TENON_KERNELS_CONV_WINOGRAD_TILE_H_

#include <cstdint>

namespace tenon::kernels::conv {

/// v[6 * i + j][c] = (B^T d B)[i][j] of the 6 x 6 input pixels d at x; pixels outside rows [i0, i1), columns [j0, j1) are 0.
struct WinogradInput {
  const float* x;            ///< pixel (0, 0) of the tile, which may lie outside the picture
  int64_t row_step, pixel_step;
  int64_t i0, i1, j0, j1;
  int64_t channels;
  float* v;
  int64_t point_step;        ///< floats from one of the 36 points to the next
};

/// y[i][j][c] = clamp((A^T m A)[i][j] + bias[c] + residual[i][j][c]) for i < rows, j < columns.
struct WinogradOutput {
  const float* m;
  int64_t point_step;
  int64_t channels;
  const float* bias;         ///< or null
  const float* residual;     ///< or null; steps as for y
  float* y;
  int64_t row_step, pixel_step;
  int64_t rows, columns;     ///< 1 to 4
  float lo, hi;
};

struct WinogradKernels {
  void (*input)(const WinogradInput&);
  void (*output)(const WinogradOutput&);
};

extern const WinogradKernels kWinogradPortable;
extern const WinogradKernels kWinogradAvx2;
extern const WinogradKernels kWinogradAvx512;

}  // namespace tenon::kernels::conv

#endif  // TENON_KERNELS_CONV_WINOGRAD_TILE_H_
