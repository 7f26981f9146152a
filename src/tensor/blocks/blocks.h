// Block formats of weights, as GGUF files hold them: a row is a sequence of blocks of a fixed number of elements and bytes.
// Unpacking gives the numbers that the `gguf` Python package gives, bit for bit.
#ifndef TENON_TENSOR_BLOCKS_BLOCKS_H_
#define TENON_TENSOR_BLOCKS_BLOCKS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

struct BlockFormat {
  std::string_view name;   ///< "q4_1"; the value of attribute `format`
  uint32_t gguf_type;      ///< ggml_type in files
  int32_t elements;        ///< of a block
  int32_t bytes;           ///< of a block
  void (*unpack)(const uint8_t* block, float* out);

  /// Bytes of a row of k elements; k must be a multiple of `elements`.
  int64_t RowBytes(int64_t k) const { return k / elements * bytes; }
  /// Elements of a row of so many bytes; -1 when they are no whole number of blocks.
  int64_t RowElements(int64_t row_bytes) const { return row_bytes % bytes == 0 ? row_bytes / bytes * elements : -1; }
};

/// All formats; null when none has this name or type.
std::span<const BlockFormat> BlockFormats();
const BlockFormat* FindBlockFormat(std::string_view name);
const BlockFormat* FindBlockFormat(uint32_t gguf_type);

/// k elements of a row; k is a multiple of format.elements.
void UnpackRow(const BlockFormat& format, const uint8_t* row, int64_t k, float* out);

/// The 16 values of iq4_nl and iq4_xs, and twice those of mxfp4.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
inline constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/// Half of 2^(e - 127).
float HalfOfE8M0(uint8_t e);
/// Scale and minimum `i` (of 8) in the 12 bytes of q4_k and q5_k.
void ScaleMinK4(const uint8_t* scales, int i, uint8_t* scale, uint8_t* min);
/// The 16 scales in the 12 bytes of q3_k, minus 32 already taken off.
void ScalesQ3K(const uint8_t* packed, int8_t* scales);
/// Element `i` (of 256) of a tq1_0 block as 0, 1 or 2: scale * (digit - 1).
int DigitTq1(const uint8_t* block, int i);
/// Scale `i` (of 8) of an iq4_xs block.
int ScaleIq4Xs(const uint8_t* block, int i);

}  // namespace tenon

#endif  // TENON_TENSOR_BLOCKS_BLOCKS_H_
