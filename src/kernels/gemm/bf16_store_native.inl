// bf16(v) stored by AVX512_BF16, n <= 16 elements. Included inside an anonymous namespace after vec_avx512.inl.
inline void StoreBf(uint16_t* p, __m512 v, int64_t n) {
  const auto bits = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v));
  if (n == 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bits);
  } else {
    _mm256_mask_storeu_epi16(p, Vec::Mask(n), bits);
  }
}
