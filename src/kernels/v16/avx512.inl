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
static inline V LoadI8(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
/// Pairs of bf16: the first and the second of each.
static inline void LoadBPairs(const uint16_t* p, V* first, V* second) {
  const __m512i pairs = _mm512_loadu_si512(p);
  first->v = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  second->v = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
/// Pairs of floats: the first and the second of each, and back.
static inline void LoadPairs(const float* p, V* first, V* second) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16);
  first->v = _mm512_permutex2var_ps(a, even, b);
  second->v = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
}
static inline void StorePairs(float* p, V first, V second) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  _mm512_storeu_ps(p, _mm512_permutex2var_ps(first.v, low, second.v));
  _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(first.v, _mm512_add_epi32(low, _mm512_set1_epi32(8)), second.v));
}
static inline void StoreH(uint16_t* p, V a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void StoreB(uint16_t* p, V a) {   // to the nearest, ties to even; NaN stays one
  const __m512i bits = _mm512_castps_si512(a.v), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __m512i kept = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), quiet);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16)));
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
