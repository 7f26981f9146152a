// The inner function of byte depthwise convolutions. Plain types: files compiled for an instruction set include it.
#ifndef TENON_KERNELS_QUANTIZE_DEPTHWISE_H_
#define TENON_KERNELS_QUANTIZE_DEPTHWISE_H_

#include <cstdint>

#include "kernels/gemm/int8_tile.h"

namespace tenon::kernels::quantize {

inline constexpr int kDepthwiseLanes = 16;   ///< channels are padded to a multiple of this

/// sums[p][c] = sum over taps t of x[p * pixel_step + offsets[t] + c] * w[t][c], for c below `channels` rounded up to the lanes.
struct DepthwiseStrip {
  const uint8_t* x;
  bool is_signed;
  int64_t pixel_step;
  const int64_t* offsets;
  int64_t taps;
  const int32_t* w;          ///< the weight in the lower 16 bits, 0 above
  int64_t w_step;            ///< from tap to tap
  int64_t channels;
  int64_t pixels;
  int32_t* sums;
  int64_t sums_step;         ///< from pixel to pixel
};

using DepthwiseFunction = void (*)(const DepthwiseStrip&);

/// The same for windows of one plane whose weights are int8 and whose x is unsigned, four rows of a window in one step:
/// w holds [channel block][group of four rows][column][quad][64 bytes]. Byte 16*l + 4*i + t of quad q is the weight of row t of
/// the group and channel 16*l + 4*q + i of the block: in the order in which unpacking four rows of bytes leaves them.
struct DepthwiseColumns {
  const uint8_t* x;          ///< the first pixel under the first row and column
  int64_t pixel_step;        ///< 1 or 2 columns
  int64_t row_step;          ///< between rows of the window
  int64_t column_step;
  int rows;
  const int8_t* w;           ///< of the first channel block
  int64_t channels;
  int64_t pixels;
  int32_t* sums;             ///< rows of `channels` rounded up to kColumnsBlock
  int64_t sums_step;
};

inline constexpr int kColumnsBlock = 64;   ///< channels of a block; absent ones weigh 0

/// What serves windows of `columns` (3 or 5), taken `stride` (1 or 2) columns apart; nullptr for others.
using ColumnsFunction = void (*)(const DepthwiseColumns&);
/// The same down to bytes, for what Int8Kernels::in_steps allows, without grid and residual; leaves sums alone.
using ColumnsToBytes = void (*)(const DepthwiseColumns&, const gemm::Int8Finish&);

void DepthwiseInt8Portable(const DepthwiseStrip& s);
#if defined(__x86_64__)
ColumnsFunction ColumnsInt8Avx512Vnni(int64_t columns, int64_t stride);
ColumnsToBytes ColumnsToBytesAvx512Vnni(int64_t columns, int64_t stride);
void DepthwiseInt8Avx2(const DepthwiseStrip& s);
void DepthwiseInt8Avx512Vnni(const DepthwiseStrip& s);
#endif

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_DEPTHWISE_H_
