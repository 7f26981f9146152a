// Byte depthwise convolution on AVX-512 with VNNI.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/quantize/depthwise.h"

namespace tenon::kernels::quantize {
namespace {

using VI = __m512i;
constexpr int kLanes = 16;
inline VI Zero() {
  return _mm512_setzero_si512();
}
inline VI LoadW(const int32_t* p) {
  return _mm512_loadu_si512(p);
}
inline void Store(int32_t* p, VI v) {
  _mm512_storeu_si512(p, v);
}
template <bool kSigned>
inline VI LoadBytes(const uint8_t* p) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return kSigned ? _mm512_cvtepi8_epi32(b) : _mm512_cvtepu8_epi32(b);
}
inline VI MultiplyAdd(VI acc, VI x, VI w) {
  return _mm512_dpwssd_epi32(acc, x, w);
}

#include "kernels/quantize/depthwise.inl"

}  // namespace

void DepthwiseInt8Avx512Vnni(const DepthwiseStrip& s) {
  if (s.is_signed)
    Strip<true>(s);
  else
    Strip<false>(s);
}

}  // namespace tenon::kernels::quantize
