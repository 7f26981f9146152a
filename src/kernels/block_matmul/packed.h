// Weights in blocks as the fast rows read them: groups of 16 columns of y (rows of W) side by side, so that a register holds one
// element of each, and depth in blocks of 32. Light, for the ISA files.
//
// A block of a group: codes, then scales, then minima.
//   nibbles  256 bytes: vector j < 4 holds [column][4]: elements 4j..4j+3 in the low halves, 16 + 4j.. in the high halves
//   five     and 64 more: of elements 4j + i the fifth bit is bit 4 + j, of 16 + 4j + i bit j, of byte [column][i]
//   six      and 128 more, 64 for each two of j: two bits from bit 4 + j % 2 * 2 and from bit j % 2 * 2 on
//   bytes    512 bytes: vector j < 8 holds [column][4]: elements 4j..4j+3
//   element = scale * (code - zero) - min, scale and min of a column for 32 elements, or (halves) for each 16 of them;
//   scales and minima [halves][16]. With `table`, code is the table's value + 128 and zero is 128.
// Scales of bytes are multiplied by an f16 of the column for 256 elements; those lie behind the last block: for each 256 elements
// scales [16], then minima [16].
// Floats have no blocks: f16 and f32 [depth][16], bf16 [pair of depth][16][2].
#ifndef TENON_KERNELS_BLOCK_MATMUL_PACKED_H_
#define TENON_KERNELS_BLOCK_MATMUL_PACKED_H_

#include <cstdint>

namespace tenon::kernels::block_matmul {

enum class Codes : uint8_t { kNibbles, kFive, kSix, kBytes, kF16, kBf16, kF32 };
enum class Scales : uint8_t { kF16, kF32, kBytes };

/// Blocks that share what scales of bytes are multiplied by.
inline constexpr int64_t kBlocksOfSuper = 8;

struct Layout {
  Codes codes = Codes::kNibbles;
  Scales scales = Scales::kF16;
  bool has_min = false;
  bool halves = false;  ///< one scale for 16 elements, else for 32
  const uint8_t* table = nullptr;  ///< [16]
  int32_t zero = 0;

  bool is_float() const { return codes >= Codes::kF16; }
  int64_t code_bytes() const {
    constexpr int64_t kOf[] = {256, 320, 384, 512, 1024, 1024, 2048};
    return kOf[static_cast<int>(codes)];
  }
  int64_t scale_bytes() const { return (halves ? 32 : 16) * (scales == Scales::kF32 ? 4 : scales == Scales::kF16 ? 2 : 1); }
  /// Of 32 elements of 16 columns.
  int64_t block_bytes() const { return code_bytes() + (is_float() ? 0 : scale_bytes() * (has_min ? 2 : 1)); }
  /// Of all that is packed of a group.
  int64_t group_bytes(int64_t blocks) const {
    const int64_t supers = scales == Scales::kBytes ? (blocks + kBlocksOfSuper - 1) / kBlocksOfSuper : 0;
    return blocks * block_bytes() + supers * (has_min ? 64 : 32);
  }
};

/// A row of X: integers of 16 bits with one scale for 32, in the form that the table's dot functions read, and as it is.
struct RowX {
  const float* x;  ///< padded with zeros to whole blocks
  const int8_t* high;  ///< q = 256 high + low
  const int8_t* low;
  const int16_t* q;  ///< per 4 elements: 0, 2, 1, 3
  const float* scale;  ///< [blocks]
  const int32_t* sums;  ///< [2 * blocks] of q over 16
};

inline constexpr int kRowsAtOnce = 4;

struct Dot {
  const uint8_t* w;  ///< of one group
  const Layout* layout;
  int64_t blocks;
  int rows;  ///< 1 to kRowsAtOnce
  const RowX* x;  ///< [rows]
  float* y;  ///< [rows][y_step], 16 of each
  int64_t y_step;
};

struct FinishTask {
  float* acc;  ///< [rows][acc_step] sums: 16 columns, with a gate 16 more to its right
  int64_t acc_step, rows;
  int64_t n;  ///< columns wanted, at most 16
  int gate;  ///< 0 none, 1 silu, 2 gelu
  const float *bias, *bias2;  ///< [16] or null
  const float* residual;  ///< null: none
  int64_t residual_step;
  float* y;
  int64_t y_step;
};

struct Inner {
  const char* name;
  /// Fills the parts of `to` (const cast away by the owner of the memory) from x[0, k); blocks * 32 >= k.
  void (*quantize)(const float* x, int64_t k, int64_t blocks, const RowX& to);
  void (*dot)(const Dot&);
  /// Panel of bf16 for gemm::Bf16Kernels: block b of the group at to + b * 1024, [pair of depth: 16][column: 16][2]. Not from
  /// bf16, whose pairs lie so already.
  void (*unpack)(const uint8_t* w, const Layout& layout, int64_t blocks, uint16_t* to);
  void (*finish)(const FinishTask&);
};

extern const Inner kPortable;
#if defined(__x86_64__)
extern const Inner kAvx2;
extern const Inner kAvx512Vnni;
extern const Inner kAvx512Bf16;

/// What the tables of AVX-512 share, and take from that of AVX2.
void UnpackAvx2(const uint8_t* w, const Layout& layout, int64_t blocks, uint16_t* to);
void QuantizeAvx512(const float* x, int64_t k, int64_t blocks, const RowX& to);
void DotAvx512Vnni(const Dot& t);
void FinishAvx512(const FinishTask& t);
#endif

}  // namespace tenon::kernels::block_matmul

#endif  // TENON_KERNELS_BLOCK_MATMUL_PACKED_H_
