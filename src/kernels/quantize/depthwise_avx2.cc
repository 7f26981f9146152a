// Byte depthwise convolution on AVX2.
#include <immintrin.h>

#include "kernels/quantize/depthwise.h"

namespace tenon::kernels::quantize {
namespace {

using VI = __m256i;
constexpr int kLanes = 8;
inline VI Zero() {
  return _mm256_setzero_si256();
}
inline VI LoadW(const int32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline void Store(int32_t* p, VI v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}
template <bool kSigned>
inline VI LoadBytes(const uint8_t* p) {
  const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return kSigned ? _mm256_cvtepi8_epi32(b) : _mm256_cvtepu8_epi32(b);
}
inline VI MultiplyAdd(VI acc, VI x, VI w) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(x, w));
}

#include "kernels/quantize/depthwise.inl"

}  // namespace

void DepthwiseInt8Avx2(const DepthwiseStrip& s) {
  if (s.is_signed)
    Strip<true>(s);
  else
    Strip<false>(s);
}

}  // namespace tenon::kernels::quantize
