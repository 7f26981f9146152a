// bf16(v) rounded in integers and stored, n <= 8 elements. Included inside an anonymous namespace after vec_avx2.inl.
// The bf16 nearest to each lane, ties to even, in the upper half; NaN stays NaN.
inline __m256i RoundBits(__m256 v) {
  const __m256i x = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
  const __m256i r = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(x, _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
  return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(r), _mm256_castsi256_ps(quiet), nan));
}

inline void StoreBf(uint16_t* p, __m256 v, int64_t n) {
  const __m256i high = _mm256_srli_epi32(RoundBits(v), 16);
  const __m128i bits = _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  if (n == 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bits);
  } else {
    alignas(16) uint16_t all[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(all), bits);
    for (int64_t i = 0; i < n; ++i) p[i] = all[i];
  }
}
