// The inner function of byte depthwise convolutions. Plain types: files compiled for an instruction set include it.
#ifndef TENON_KERNELS_QUANTIZE_DEPTHWISE_H_
#define TENON_KERNELS_QUANTIZE_DEPTHWISE_H_

#include <cstdint>

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

void DepthwiseInt8Portable(const DepthwiseStrip& s);
#if defined(__x86_64__)
void DepthwiseInt8Avx2(const DepthwiseStrip& s);
void DepthwiseInt8Avx512Vnni(const DepthwiseStrip& s);
#endif

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_DEPTHWISE_H_
