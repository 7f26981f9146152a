// What the files for CPUs with AVX512_BF16 share. Included inside an anonymous namespace after vec_avx512.inl.

inline void StoreBf(uint16_t* p, __m512 v, int64_t n) {
  const auto bits = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v));
  if (n == 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bits);
  } else {
    _mm256_mask_storeu_epi16(p, Vec::Mask(n), bits);
  }
}

inline __m512 RoundBf(__m512 v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v))), 16));
}

inline void StoreRow(uint16_t* p, const __m512* v) {
  _mm512_storeu_si512(p, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(v[1], v[0])));
}

// Each run is one store of 32 elements, the next one covers what lies behind.
inline bool CopyRuns(const void* from, bool from_f32, int64_t n, int64_t runs, int64_t from_step, uint16_t* to) {
  if (n > 32) return false;
  if (!from_f32) {
    const auto* p = static_cast<const uint16_t*>(from);
    const __mmask32 mask = n == 32 ? 0xffffffffU : (1U << n) - 1U;
    for (int64_t i = 0; i < runs; ++i) _mm512_storeu_si512(to + i * n, _mm512_maskz_loadu_epi16(mask, p + i * from_step));
    return true;
  }
  const auto* p = static_cast<const float*>(from);
  const __mmask16 low = n >= 16 ? static_cast<__mmask16>(0xffff) : Vec::Mask(n);
  const __mmask16 high = n <= 16 ? static_cast<__mmask16>(0) : Vec::Mask(n - 16);
  for (int64_t i = 0; i < runs; ++i) {
    const __m512 a = _mm512_maskz_loadu_ps(low, p + i * from_step);
    const __m512 b = _mm512_maskz_loadu_ps(high, p + i * from_step + 16);
    _mm512_storeu_si512(to + i * n, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a)));
  }
  return true;
}
