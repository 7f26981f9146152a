// The contract of the bf16 micro-kernels: one tile of C, some rows by one panel of 32 columns. Plain types only, because files
// compiled for an instruction set include it. bf16 values travel as uint16_t.
#ifndef TENON_KERNELS_GEMM_BF16_TILE_H_
#define TENON_KERNELS_GEMM_BF16_TILE_H_

#include <cstdint>

namespace tenon::kernels::gemm {

struct Activation;

/// Columns of a panel of B, and the depth to which it is padded with zeros.
inline constexpr int64_t kBf16Panel = 32;
inline constexpr int64_t kBf16Depth = 32;
/// Most rows of any tile.
inline constexpr int64_t kBf16MaxRows = 32;

/// acc[r][c] (+)= sum over taps t and depth k of A[r][tap_offsets[t] + k] * B[t * depth + k][c], for c < 32, depth a multiple
/// of 32.
///
/// A panel of B is a sequence of blocks of 32 x 32: [half of 16 columns][pair of k: 16][column: 16][k of the pair: 2], which is
/// two tiles for TDPBF16PS and 32 vectors for VDPBF16PS.
struct Bf16Tile {
  const void* a;  ///< bf16, or f32 when the kernels say a_f32
  int64_t a_stride;  ///< elements from row to row
  const int64_t* tap_offsets;  ///< elements; null: one tap at 0
  int64_t taps;
  int64_t blocks;  ///< depth / 32 of one tap
  const uint16_t* b;
  float* acc;  ///< [rows rounded up as the kernels need][32], 64-byte aligned
  int64_t rows;
  bool narrow;  ///< columns 16 to 31 are not wanted
  bool to_24;  ///< columns 24 to 31 are not wanted
  int64_t skip;  ///< pairs at the end of a tap in which B is 0; where depth_step is 2, A is not read there
  bool accumulate;  ///< start from acc; only for kernels that can
  const uint16_t* ahead;  ///< what will be read next: brought nearer, `ahead_lines` cache lines a block
  int64_t ahead_lines;
  // Elements of B from one half of a block to the other, and from block to block: as in a panel unless they say otherwise.
  int64_t b_half = kBf16Depth * kBf16Panel / 2;
  int64_t b_block = kBf16Depth * kBf16Panel;
};

/// C[r][c] = post(clamp(alpha * acc[r][c] + bias[c] + residual[r][c])).
struct Bf16Finish {
  float* acc;  ///< [rows][32], overwritten
  int64_t rows, n;  ///< n <= 32
  void* c;
  int64_t c_stride;  ///< elements
  bool c_f32;
  const float* bias;  ///< null: none
  const void* residual;  ///< null: none
  int64_t residual_stride;
  bool residual_f32;
  float alpha;
  float lo, hi;
  const Activation* rest;  ///< what the clamp does not do; null: nothing
};

/// Rows of A gathered from runs: to[w * to_stride + r * n + i] = bf16(from[w * window_step + r * run_step + i]) for i < n,
/// r < runs, w < windows; then zeros up to `padded` elements of the row. Rows are written in order, up to 64 bytes too far.
struct Bf16Windows {
  const void* from;
  bool from_f32;
  int64_t n, runs, run_step;
  int64_t windows, window_step;
  void* to;  ///< bf16, or f32 when a_f32
  int64_t to_stride;
  int64_t padded;
};

struct Bf16Kernels {
  const char* name;
  int64_t max_rows;  ///< of a tile
  int64_t depth_step;  ///< rows of A may lie where they are when their depth is a multiple of this
  bool can_accumulate;
  bool a_f32;  ///< A is read as f32 holding bf16 values; never where it lies then
  bool whole_rows;  ///< a tile reads (and writes to acc) 16 or 32 rows, whatever `rows` says
  void (*begin)();  ///< before and after a thread's tiles; may be null
  void (*end)();
  void (*tile)(const Bf16Tile&);
  void (*finish)(const Bf16Finish&);
  /// Both at once for a whole panel whose `rest` is null or HardSwish, without acc; null: not there.
  void (*tile_finish)(const Bf16Tile&, const Bf16Finish&);
  /// to[i] for i < padded: bf16(from[i]), 0 from n on. `to` is bf16, or f32 when a_f32.
  void (*convert)(const void* from, bool from_f32, int64_t n, void* to, int64_t padded);
  void (*windows)(const Bf16Windows&);
  /// to[i] = bf16(from[i])
  void (*narrow)(const float* from, int64_t n, uint16_t* to);
  /// One panel from bf16 B[k][n] at b[k * k_stride + n * n_stride], n <= 32, zeros beyond k and n.
  void (*pack_panel)(const uint16_t* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, uint16_t* to);
};

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_BF16_TILE_H_
