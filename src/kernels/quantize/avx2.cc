// Quantisation loops for AVX2.
#include <immintrin.h>

#include <cstring>

#include "kernels/quantize/simd.h"

namespace tenon::kernels::quantize {
namespace {

using Vec = __m256;
using IVec = __m256i;
constexpr int kLanes = 8;

inline Vec LoadF(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void StoreF(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
inline Vec SetF(float v) {
  return _mm256_set1_ps(v);
}
inline Vec AddF(Vec a, Vec b) {
  return _mm256_add_ps(a, b);
}
inline Vec DivF(Vec a, Vec b) {
  return _mm256_div_ps(a, b);
}
inline Vec MulF(Vec a, Vec b) {
  return _mm256_mul_ps(a, b);
}
inline Vec MinF(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
inline Vec MaxF(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
inline Vec RoundF(Vec a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec ZeroNan(Vec a) {
  return _mm256_and_ps(a, _mm256_cmp_ps(a, a, _CMP_ORD_Q));
}
inline IVec SetI(int32_t v) {
  return _mm256_set1_epi32(v);
}
inline IVec AddI(IVec a, IVec b) {
  return _mm256_add_epi32(a, b);
}
inline IVec SubI(IVec a, IVec b) {
  return _mm256_sub_epi32(a, b);
}
inline Vec ToFloat(IVec a) {
  return _mm256_cvtepi32_ps(a);
}
inline IVec ToInt(Vec a) {
  return _mm256_cvtps_epi32(a);
}
inline IVec LoadBytes(const uint8_t* p, bool is_signed) {
  const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return is_signed ? _mm256_cvtepi8_epi32(b) : _mm256_cvtepu8_epi32(b);
}
inline void StoreBytes(uint8_t* p, IVec v, bool is_signed) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), is_signed ? _mm_packs_epi16(words, words) : _mm_packus_epi16(words, words));
}

#include "kernels/quantize/simd-inl.h"

}  // namespace

const Simd kSimdAvx2 = {Quantize, QuantizeEach, Dequantize, DequantizeEach, MinMax, Binary};

}  // namespace tenon::kernels::quantize
