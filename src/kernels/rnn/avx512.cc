// AVX-512 pieces of the packed recurrent kernels.
#include <immintrin.h>

#include "kernels/rnn/simd.h"

#define TENON_RNN_ROWS 6

namespace tenon::kernels::rnn {
namespace {

using Vec = __m512;
constexpr int kLanes = 16;

inline Vec Load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void Store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
inline Vec Set(float v) {
  return _mm512_set1_ps(v);
}
inline Vec Add(Vec a, Vec b) {
  return _mm512_add_ps(a, b);
}
inline Vec Sub(Vec a, Vec b) {
  return _mm512_sub_ps(a, b);
}
inline Vec Mul(Vec a, Vec b) {
  return _mm512_mul_ps(a, b);
}
inline Vec Div(Vec a, Vec b) {
  return _mm512_div_ps(a, b);
}
inline Vec MulAdd(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Vec Min(Vec a, Vec b) {
  return _mm512_min_ps(a, b);
}
inline Vec Max(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
inline Vec Abs(Vec a) {
  return _mm512_abs_ps(a);
}
inline Vec CopySign(Vec magnitude, Vec sign) {
  return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
inline __mmask16 Less(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
inline Vec Select(__mmask16 m, Vec yes, Vec no) {
  return _mm512_mask_blend_ps(m, no, yes);
}
inline Vec Round(Vec a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec Exp2Scale(Vec x, Vec n) {
  return _mm512_scalef_ps(x, n);
}

#include "kernels/rnn/simd-inl.h"

}  // namespace

const Simd kSimdAvx512 = {kLanes,  TENON_RNN_ROWS, Product<3>, Product<4>, RnnTanh,
                          RnnRelu, GruLinear,      GruPhase0,  GruPhase1,  Lstm};

}  // namespace tenon::kernels::rnn
