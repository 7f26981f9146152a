// bf16(v) rounded in integers and stored, n <= 16 elements. Included inside an anonymous namespace after vec_avx512.inl.
// The bf16 nearest to each lane, ties to even, in the upper half; NaN stays NaN.
inline __m512i RoundBits(__m512 v) {
  const __m512i x = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
  const __m512i r = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  return _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), x, _mm512_set1_epi32(0x400000));
}

inline void StoreBf(uint16_t* p, __m512 v, int64_t n) {
  const __m256i bits = _mm512_cvtepi32_epi16(_mm512_srli_epi32(RoundBits(v), 16));
  if (n == 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bits);
  } else {
    _mm256_mask_storeu_epi16(p, Vec::Mask(n), bits);
  }
}
