// AVX2 pieces of the packed recurrent kernels.
#include <immintrin.h>

#include "kernels/rnn/simd.h"

#define TENON_RNN_ROWS 3

namespace tenon::kernels::rnn {
namespace {

using Vec = __m256;
constexpr int kLanes = 8;

inline Vec Load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void Store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
inline Vec Set(float v) {
  return _mm256_set1_ps(v);
}
inline Vec Add(Vec a, Vec b) {
  return _mm256_add_ps(a, b);
}
inline Vec Sub(Vec a, Vec b) {
  return _mm256_sub_ps(a, b);
}
inline Vec Mul(Vec a, Vec b) {
  return _mm256_mul_ps(a, b);
}
inline Vec Div(Vec a, Vec b) {
  return _mm256_div_ps(a, b);
}
inline Vec MulAdd(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Vec Min(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
inline Vec Max(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
inline Vec Abs(Vec a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
inline Vec CopySign(Vec magnitude, Vec sign) {
  return _mm256_or_ps(magnitude, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}
inline Vec Less(Vec a, Vec b) {
  return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
inline Vec Select(Vec m, Vec yes, Vec no) {
  return _mm256_blendv_ps(no, yes, m);
}
inline Vec Round(Vec a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// n lies in [-127, 127]; for NaN the factor does not matter.
inline Vec Exp2Scale(Vec x, Vec n) {
  const __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(x, _mm256_castsi256_ps(bits));
}

#include "kernels/rnn/simd-inl.h"

}  // namespace

const Simd kSimdAvx2 = {kLanes, TENON_RNN_ROWS, Product<3>, Product<4>, RnnTanh, RnnRelu, GruLinear, GruPhase0, GruPhase1, Lstm};

}  // namespace tenon::kernels::rnn
