// Products of many rows in bytes: X is rounded to eight bits with one scale for 32 elements, weights are unpacked panel by panel
// to bytes, sums of a block are exact. Where one element of a block stands out, what it has beyond the others is multiplied
// apart: language models have such elements everywhere, and with them in the scale three quarters of the precision would go.
// Nearly twice the speed of bf16 on CPUs with VNNI. Light, for the ISA files.
#ifndef TENON_KERNELS_BLOCK_MATMUL_BYTES_H_
#define TENON_KERNELS_BLOCK_MATMUL_BYTES_H_

#include <cstdint>

#include "kernels/block_matmul/packed.h"

namespace tenon::kernels::block_matmul {

/// What all weights of a product have in common once they are unpacked: element = scale * (code - zero) - min.
struct BytesForm {
  bool halves = false;  ///< one scale for 16 elements, else for 32
  bool has_min = false;  ///< and then zero is 0
  int32_t zero = 0;

  /// A block of a panel is codes [8][group: 2][column: 16][4], then f32 scales [halves][group: 2][column: 16] and such minima.
  int64_t block_bytes() const { return 1024 + (halves ? 256 : 128) * (has_min ? 2 : 1); }
};

inline constexpr int64_t kBytesMaxRows = 8;  ///< of any table

/// What elements of X at one depth have beyond their codes.
struct Apart {
  int32_t block, place;  ///< place: in the block
  float rests[kBytesMaxRows];
};

/// Rows of X side by side, so that a tile reads one stream. A block is codes [rows][32], then scales [rows], then for each half
/// (with one scale for 32: once) [rows] of: with minima scale * sum of codes + what stands out, else as int32 -zero * sum of
/// codes.
struct BytesX {
  uint8_t* data;
  Apart* apart;
  int64_t apart_count;
  int64_t rows;  ///< 1 to max_rows

  static int64_t BlockBytes(int64_t rows, const BytesForm& form) { return rows * (form.halves ? 44 : 40); }
};

/// An element stands out from its block when it is this many times the next largest.
inline constexpr float kStandsOut = 2.0f;

struct BytesTile {
  const uint8_t* panel;
  const BytesForm* form;
  int64_t blocks;
  const BytesX* x;
  float* acc;  ///< [rows][32]
};

struct BytesInner {
  int64_t max_rows;  ///< at most kBytesMaxRows
  /// Fills `to` from x[r * k] for its rows; blocks * 32 >= k.
  void (*quantize)(const float* x, int64_t k, int64_t blocks, const BytesForm& form, BytesX* to);
  /// One group of weights becomes half of a panel.
  void (*unpack)(const uint8_t* w, const Layout& layout, const BytesForm& form, int64_t blocks, int half, uint8_t* panel);
  void (*tile)(const BytesTile&);
};

#if defined(__x86_64__)
extern const BytesInner kBytesAvx512Vnni;
#endif

}  // namespace tenon::kernels::block_matmul

#endif  // TENON_KERNELS_BLOCK_MATMUL_BYTES_H_
