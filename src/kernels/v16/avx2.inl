// Sixteen floats as two registers of AVX2. For files compiled for it, inside their namespace.
struct V {
  __m256 a, b;
};
static inline V Zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
static inline V Set(float f) {
  return {_mm256_set1_ps(f), _mm256_set1_ps(f)};
}
static inline V Load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline void Store(float* p, V v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
static inline V LoadH(const uint16_t* p) {
  const __m128i* h = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
static inline V LoadB(const uint16_t* p) {
  const auto half = [](const uint16_t* from) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  };
  return {half(p), half(p + 8)};
}
static inline V LoadI8(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
/// Pairs of bf16: the first and the second of each.
static inline void LoadBPairs(const uint16_t* p, V* first, V* second) {
  const __m256i* pairs = reinterpret_cast<const __m256i*>(p);
  const __m256i a = _mm256_loadu_si256(pairs), b = _mm256_loadu_si256(pairs + 1);
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  *first = {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
  *second = {_mm256_castsi256_ps(_mm256_and_si256(a, high)), _mm256_castsi256_ps(_mm256_and_si256(b, high))};
}
static inline __m256 InOrder(__m256 v) {   // 0 1 4 5 2 3 6 7 becomes 0 1 2 .. 7
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
}
/// Pairs of floats: the first and the second of each, and back.
static inline void LoadPairs(const float* p, V* first, V* second) {
  const __m256 a = _mm256_loadu_ps(p), b = _mm256_loadu_ps(p + 8), c = _mm256_loadu_ps(p + 16), d = _mm256_loadu_ps(p + 24);
  *first = {InOrder(_mm256_shuffle_ps(a, b, 0x88)), InOrder(_mm256_shuffle_ps(c, d, 0x88))};
  *second = {InOrder(_mm256_shuffle_ps(a, b, 0xdd)), InOrder(_mm256_shuffle_ps(c, d, 0xdd))};
}
static inline void StorePairs(float* p, V first, V second) {
  const auto half = [](float* to, __m256 x, __m256 y) {
    const __m256 low = _mm256_unpacklo_ps(x, y), high = _mm256_unpackhi_ps(x, y);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
  };
  half(p, first.a, second.a);
  half(p + 16, first.b, second.b);
}
static inline void StoreH(uint16_t* p, V v) {
  __m128i* h = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(h, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(h + 1, _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT));
}
/// The lower half of each lane, above it zeros: rounded to the nearest, ties to even; NaN stays one.
static inline __m256i Bf16Bits(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
static inline void StoreB(uint16_t* p, V v) {
  const __m256i packed = _mm256_packus_epi32(Bf16Bits(v.a), Bf16Bits(v.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
static inline V Fma(V x, V y, V z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline V Add(V x, V y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
static inline V Sub(V x, V y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
static inline V Mul(V x, V y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
static inline V Div(V x, V y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
static inline V Max(V x, V y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
static inline V Abs(V x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
static inline float SumOf(V x) {
  const __m256 s = _mm256_add_ps(x.a, x.b);
  __m128 h = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  h = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
static inline float MaxOf(V x) {
  const __m256 s = _mm256_max_ps(x.a, x.b);
  __m128 h = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  h = _mm_max_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}
static inline V RoundV(V x) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, kMode), _mm256_round_ps(x.b, kMode)};
}
static inline __m256 Scale2Half(__m256 a, __m256 n) {
  // In two steps, so that the exponents of both stay in range.
  n = _mm256_min_ps(_mm256_max_ps(n, _mm256_set1_ps(-252.0f)), _mm256_set1_ps(254.0f));
  const __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1), rest = _mm256_sub_epi32(i, half);
  const __m256i bias = _mm256_set1_epi32(127);
  a = _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
  return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}
/// a * 2^n for whole n; 0 and infinity beyond the range of floats.
static inline V Scale2(V a, V n) {
  return {Scale2Half(a.a, n.a), Scale2Half(a.b, n.b)};
}
