// Sixteen floats as one register of AVX-512. For files compiled for it, inside their namespace.
struct V {
  __m512 v;
};
static inline V Zero() {
  return {_mm512_setzero_ps()};
}
static inline V Set(float f) {
  return {_mm512_set1_ps(f)};
}
static inline V Load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
static inline void Store(float* p, V a) {
  _mm512_storeu_ps(p, a.v);
}
static inline V LoadH(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
static inline V LoadB(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
static inline void StoreH(uint16_t* p, V a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline V Fma(V a, V b, V c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
static inline V Add(V a, V b) {
  return {_mm512_add_ps(a.v, b.v)};
}
static inline V Sub(V a, V b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
static inline V Mul(V a, V b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
static inline V Div(V a, V b) {
  return {_mm512_div_ps(a.v, b.v)};
}
static inline V Max(V a, V b) {
  return {_mm512_max_ps(a.v, b.v)};
}
static inline V Abs(V a) {
  return {_mm512_abs_ps(a.v)};
}
static inline float SumOf(V a) {
  return _mm512_reduce_add_ps(a.v);
}
static inline float MaxOf(V a) {
  return _mm512_reduce_max_ps(a.v);
}
static inline V RoundV(V a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// a * 2^n for whole n; 0 and infinity beyond the range of floats.
static inline V Scale2(V a, V n) {
  return {_mm512_scalef_ps(a.v, n.v)};
}
