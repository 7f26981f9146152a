// Byte depthwise convolution for any machine.
#include "kernels/quantize/depthwise.h"

namespace tenon::kernels::quantize {
namespace {

template <bool kSigned>
void Strip(const DepthwiseStrip& s) {
  for (int64_t p = 0; p < s.pixels; ++p) {
    int32_t* sums = s.sums + p * s.sums_step;
    for (int64_t c = 0; c < s.channels; ++c) sums[c] = 0;
    for (int64_t t = 0; t < s.taps; ++t) {
      const uint8_t* x = s.x + p * s.pixel_step + s.offsets[t];
      const int32_t* w = s.w + t * s.w_step;
      for (int64_t c = 0; c < s.channels; ++c) {
        const int32_t v = kSigned ? static_cast<int8_t>(x[c]) : x[c];
        sums[c] += v * static_cast<int16_t>(w[c]);
      }
    }
  }
}

}  // namespace

void DepthwiseInt8Portable(const DepthwiseStrip& s) {
  if (s.is_signed)
    Strip<true>(s);
  else
    Strip<false>(s);
}

}  // namespace tenon::kernels::quantize
