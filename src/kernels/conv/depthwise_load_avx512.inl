// Loads of bf16 for depthwise lines. Included inside an anonymous namespace after gemm/vec_avx512.inl.
inline __m512 LoadC(const uint16_t* p, int64_t n, bool whole) {
  const __m256i raw =
      whole ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)) : _mm256_maskz_loadu_epi16(Vec::Mask(n < 16 ? n : 16), p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}
