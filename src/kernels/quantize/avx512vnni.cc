// Quantisation loops for AVX-512.
#include <immintrin.h>

#include <cstring>

#include "kernels/quantize/simd.h"

namespace tenon::kernels::quantize {
namespace {

using Vec = __m512;
using IVec = __m512i;
constexpr int kLanes = 16;

inline Vec LoadF(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void StoreF(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
inline Vec SetF(float v) {
  return _mm512_set1_ps(v);
}
inline Vec AddF(Vec a, Vec b) {
  return _mm512_add_ps(a, b);
}
inline Vec DivF(Vec a, Vec b) {
  return _mm512_div_ps(a, b);
}
inline Vec MulF(Vec a, Vec b) {
  return _mm512_mul_ps(a, b);
}
inline Vec MinF(Vec a, Vec b) {
  return _mm512_min_ps(a, b);
}
inline Vec MaxF(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
inline Vec RoundF(Vec a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec ZeroNan(Vec a) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a);
}
inline IVec SetI(int32_t v) {
  return _mm512_set1_epi32(v);
}
inline IVec AddI(IVec a, IVec b) {
  return _mm512_add_epi32(a, b);
}
inline IVec SubI(IVec a, IVec b) {
  return _mm512_sub_epi32(a, b);
}
inline Vec ToFloat(IVec a) {
  return _mm512_cvtepi32_ps(a);
}
inline IVec ToInt(Vec a) {
  return _mm512_cvtps_epi32(a);
}
inline IVec LoadBytes(const uint8_t* p, bool is_signed) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return is_signed ? _mm512_cvtepi8_epi32(b) : _mm512_cvtepu8_epi32(b);
}
inline void StoreBytes(uint8_t* p, IVec v, bool /*is_signed*/) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}

#include "kernels/quantize/simd-inl.h"

}  // namespace

const Simd kSimdAvx512Vnni = {Quantize, QuantizeEach, Dequantize, DequantizeEach, MinMax, Binary};

}  // namespace tenon::kernels::quantize
