// One vector of f32 in the widest instruction set of the including file: 16 lanes with AVX-512, 8 with AVX2. For files named
// *avx2.cc and *avx512.cc only. Everything has internal linkage, so that no copy leaks into code for a lesser machine.
#ifndef TENON_KERNELS_VEC_F32_H_
#define TENON_KERNELS_VEC_F32_H_

#include <immintrin.h>

#include <cstdint>

namespace tenon::kernels {
namespace {  // NOLINT(google-build-namespaces): one copy for each instruction set, on purpose

#if defined(__AVX512F__)

using V = __m512;
using M = __mmask16;
inline constexpr int64_t kLanes = 16;

inline M FirstMask(int64_t n) {
  return static_cast<M>((1u << n) - 1);
}  // n in [0, 16]
inline V Load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void Store(float* p, V v) {
  _mm512_storeu_ps(p, v);
}
/// The first n lanes, n in [0, kLanes]; the others are 0 and not read.
inline V LoadPart(const float* p, int64_t n) {
  return _mm512_maskz_loadu_ps(FirstMask(n), p);
}
inline void StorePart(float* p, V v, int64_t n) {
  _mm512_mask_storeu_ps(p, FirstMask(n), v);
}
inline V Set1(float f) {
  return _mm512_set1_ps(f);
}
inline V Zero() {
  return _mm512_setzero_ps();
}
inline V Add(V a, V b) {
  return _mm512_add_ps(a, b);
}
inline V Sub(V a, V b) {
  return _mm512_sub_ps(a, b);
}
inline V Mul(V a, V b) {
  return _mm512_mul_ps(a, b);
}
inline V Div(V a, V b) {
  return _mm512_div_ps(a, b);
}
inline V Fma(V a, V b, V c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline V Fnma(V a, V b, V c) {
  return _mm512_fnmadd_ps(a, b, c);
}
/// b where either is NaN.
inline V Max(V a, V b) {
  return _mm512_max_ps(a, b);
}
inline V Min(V a, V b) {
  return _mm512_min_ps(a, b);
}
inline V Abs(V a) {
  return _mm512_abs_ps(a);
}
inline V Sqrt(V a) {
  return _mm512_sqrt_ps(a);
}
inline M Nan(V a) {
  return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
inline M Equal(V a, V b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
inline M Less(V a, V b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
inline M Or(M a, M b) {
  return static_cast<M>(a | b);
}
inline M NoLanes() {
  return 0;
}
inline uint32_t Bits(M m) {
  return m;
}
/// m ? a : b
inline V Select(M m, V a, V b) {
  return _mm512_mask_blend_ps(m, b, a);
}
/// The first n lanes of a, `fill` elsewhere.
inline V Keep(V a, V fill, int64_t n) {
  return _mm512_mask_blend_ps(FirstMask(n), fill, a);
}
inline float SumLanes(V v) {
  return _mm512_reduce_add_ps(v);
}
inline float MaxLanes(V v) {
  return _mm512_reduce_max_ps(v);
}
inline float MinLanes(V v) {
  return _mm512_reduce_min_ps(v);
}
inline float MulLanes(V v) {
  return _mm512_reduce_mul_ps(v);
}
inline V RoundEven(V v) {
  return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// v * 2^n for integral n.
inline V Scale2(V v, V n) {
  return _mm512_scalef_ps(v, n);
}

#else

using V = __m256;
using M = __m256;
inline constexpr int64_t kLanes = 8;

inline __m256i FirstMask(int64_t n) {
  alignas(32) static const int32_t kTable[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kTable + 8 - n));
}
inline V Load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void Store(float* p, V v) {
  _mm256_storeu_ps(p, v);
}
inline V LoadPart(const float* p, int64_t n) {
  return _mm256_maskload_ps(p, FirstMask(n));
}
inline void StorePart(float* p, V v, int64_t n) {
  _mm256_maskstore_ps(p, FirstMask(n), v);
}
inline V Set1(float f) {
  return _mm256_set1_ps(f);
}
inline V Zero() {
  return _mm256_setzero_ps();
}
inline V Add(V a, V b) {
  return _mm256_add_ps(a, b);
}
inline V Sub(V a, V b) {
  return _mm256_sub_ps(a, b);
}
inline V Mul(V a, V b) {
  return _mm256_mul_ps(a, b);
}
inline V Div(V a, V b) {
  return _mm256_div_ps(a, b);
}
inline V Fma(V a, V b, V c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline V Fnma(V a, V b, V c) {
  return _mm256_fnmadd_ps(a, b, c);
}
inline V Max(V a, V b) {
  return _mm256_max_ps(a, b);
}
inline V Min(V a, V b) {
  return _mm256_min_ps(a, b);
}
inline V Abs(V a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
inline V Sqrt(V a) {
  return _mm256_sqrt_ps(a);
}
inline M Nan(V a) {
  return _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
}
inline M Equal(V a, V b) {
  return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
inline M Less(V a, V b) {
  return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
inline M Or(M a, M b) {
  return _mm256_or_ps(a, b);
}
inline M NoLanes() {
  return _mm256_setzero_ps();
}
inline uint32_t Bits(M m) {
  return static_cast<uint32_t>(_mm256_movemask_ps(m));
}
inline V Select(M m, V a, V b) {
  return _mm256_blendv_ps(b, a, m);
}
inline V Keep(V a, V fill, int64_t n) {
  return _mm256_blendv_ps(fill, a, _mm256_castsi256_ps(FirstMask(n)));
}
template <typename F>
inline float FoldLanes(V v, F f) {
  __m128 a = f(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  a = f(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(f(a, _mm_shuffle_ps(a, a, 1)));
}
inline float SumLanes(V v) {
  return FoldLanes(v, [](__m128 a, __m128 b) { return _mm_add_ps(a, b); });
}
inline float MaxLanes(V v) {
  return FoldLanes(v, [](__m128 a, __m128 b) { return _mm_max_ps(a, b); });
}
inline float MinLanes(V v) {
  return FoldLanes(v, [](__m128 a, __m128 b) { return _mm_min_ps(a, b); });
}
inline float MulLanes(V v) {
  return FoldLanes(v, [](__m128 a, __m128 b) { return _mm_mul_ps(a, b); });
}
inline V RoundEven(V v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline V Scale2(V v, V n) {  // in two factors, so that n may leave the range of one exponent
  const __m256i i = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(i, 1);
  const auto power = [](__m256i e) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
  };
  return _mm256_mul_ps(_mm256_mul_ps(v, power(half)), power(_mm256_sub_epi32(i, half)));
}

#endif

/// e^x within 2 ulp; 0 below -104 and for -inf, inf above 88.73, NaN stays NaN.
inline V Exp(V x) {
  const V lo = Set1(-105.0f);
  const V hi = Set1(89.0f);
  x = Min(hi, Max(lo, x));  // operand order keeps NaN
  const V n = RoundEven(Mul(x, Set1(1.44269504088896341f)));
  V r = Fnma(n, Set1(0.693359375f), x);
  r = Fnma(n, Set1(-2.12194440e-4f), r);
  V p = Set1(1.9875691500e-4f);
  p = Fma(p, r, Set1(1.3981999507e-3f));
  p = Fma(p, r, Set1(8.3334519073e-3f));
  p = Fma(p, r, Set1(4.1665795894e-2f));
  p = Fma(p, r, Set1(1.6666665459e-1f));
  p = Fma(p, r, Set1(5.0000001201e-1f));
  p = Fma(p, Mul(r, r), Add(r, Set1(1.0f)));
  return Scale2(p, n);
}

}  // namespace
}  // namespace tenon::kernels

#endif  // TENON_KERNELS_VEC_F32_H_
