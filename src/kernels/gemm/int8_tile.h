// The contract of the byte micro-kernels: a tile of int32 sums, and what becomes of them. Plain types only, because files
// compiled for an instruction set include it.
#ifndef TENON_KERNELS_GEMM_INT8_TILE_H_
#define TENON_KERNELS_GEMM_INT8_TILE_H_

#include <cstdint>

namespace tenon::kernels::gemm {

inline constexpr int kInt8MaxRows = 16;      ///< of a tile
inline constexpr int kInt8MaxTiles = 2;      ///< tiles of one call
inline constexpr int kInt8MaxColumns = 64;   ///< of a panel

/// sums[t][r][c] = sum over taps p and depth k of A[t][r][p][k] * B[p][k][c], exact in int32.
/// A[t][r][p] starts at a[t] + tap_offsets[p] + r * a_stride; B goes on from tap to tap. A is read up to `k_unit` - 1 bytes
/// beyond the depth, and for the rows up to the number told to `begin`; B has zeros there.
struct Int8Tile {
  const uint8_t* a[kInt8MaxTiles];
  int64_t a_stride[kInt8MaxTiles];
  const int64_t* tap_offsets[kInt8MaxTiles];
  int64_t taps;
  int64_t depth;              ///< bytes of A; B holds RoundUp(depth, k_unit) a tap
  const int8_t* b;            ///< [k / 4][columns][4]
  int columns;                ///< of the panel: vectors * lanes
  int tiles;                  ///< 1 or the kernels' max_tiles
  int rows;                   ///< of each tile
  int32_t* sums;              ///< [tiles][kInt8MaxRows][columns]
  bool accumulate;            ///< start from sums; only where there is to_results
  const int8_t* ahead;        ///< what will be read next: brought nearer, `ahead_lines` cache lines in all
  int64_t ahead_lines;
};

/// What residuals and results are.
enum class Int8Kind : int { kF32 = 0, kBF16, kU8, kI8, kI32 };

/// y = to(clamp(grid(float(sum + offset - row_sum * b_zero) * scale + bias) + residual)), for rows x n sums. Callers fold the
/// steps of the grid and of y into the scales, so that no division is left.
struct Int8Finish {
  int32_t* sums;               ///< also where f32 values wait for an activation that is no clamp
  int64_t sums_stride;
  int64_t rows, n;
  const int32_t* offset;       ///< [n]
  const int32_t* b_zero;       ///< [n], or null: all are 0
  const int32_t* row_sums;     ///< [rows] of A, only with b_zero
  const float* scale;          ///< [n], in steps of the grid if there is one
  const float* bias;           ///< [n] or null
  bool through_grid;           ///< v = clamp(round(v), grid_low, grid_high) * grid_scale
  float grid_scale, grid_low, grid_high;
  const void* residual;        ///< null: none
  Int8Kind residual_kind;
  int64_t residual_stride;     ///< elements, as y_stride
  float residual_scale, residual_shift;   ///< it counts as residual * scale + shift
  float lo, hi;
  void* y;
  Int8Kind kind;
  int64_t y_stride;
  float y_inverse;             ///< bytes: y = saturate(round(v * y_inverse) + y_zero)
  int32_t y_zero;
  bool finite;                 ///< scales and bias are numbers
};

using Int8TileKernel = void (*)(const Int8Tile&);
/// One tile and what becomes of it, without sums in between.
using Int8TileToResults = void (*)(const Int8Tile&, const Int8Finish&);

struct Int8Kernels {
  const char* name;
  int lanes;
  int max_vectors;
  int k_unit;                              ///< bytes of depth that go together: 4, or 64
  int max_tiles;
  int max_rows[5];                         ///< by vectors of a panel
  bool flips_signed;                       ///< int8 A counts as A + 128, so its zero point moves too
  Int8TileKernel tile[2][5];               ///< [A is signed][vectors]
  void (*begin)(int rows);                 ///< before the first tile on a thread, with the largest number of rows; may be null
  void (*end)();
  void (*finish)(const Int8Finish&);
  void (*convert)(const Int8Finish&);      ///< the sums are f32 results already: only the store
  /// sums[r] of the bytes of A of one tile, as the tile kernel sees them.
  void (*row_sums)(const Int8Tile&, bool is_signed, int32_t* sums);
  bool (*in_steps)(const Int8Finish&);     ///< whether to_results serves it; null: no to_results
  Int8TileToResults to_results[5];         ///< by vectors, for unsigned A; does not look at f.sums and f.rows
};

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_INT8_TILE_H_
