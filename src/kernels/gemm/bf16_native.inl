// What the files for CPUs with AVX512_BF16 share. Included inside an anonymous namespace after bf16_store_native.inl.

inline __m512 RoundBf(__m512 v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v))), 16));
}

inline void StoreRow(uint16_t* p, const __m512* v) {
  _mm512_storeu_si512(p, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(v[1], v[0])));
}

// 32 elements a store; the next run covers what a store wrote behind its own.
inline void CopyRun(const uint16_t* from, int64_t n, uint16_t* to) {
  for (; n >= 32; n -= 32, from += 32, to += 32) _mm512_storeu_si512(to, _mm512_loadu_si512(from));
  if (n > 0) _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16((1U << n) - 1U, from));
}

inline void CopyRun(const float* from, int64_t n, uint16_t* to) {
  for (; n > 0; n -= 32, from += 32, to += 32) {
    const __m512 low = _mm512_maskz_loadu_ps(n >= 16 ? static_cast<__mmask16>(0xffff) : Vec::Mask(n), from);
    const __mmask16 rest = n >= 32 ? static_cast<__mmask16>(0xffff) : n <= 16 ? static_cast<__mmask16>(0) : Vec::Mask(n - 16);
    const __m512 high = _mm512_maskz_loadu_ps(rest, from + 16);
    _mm512_storeu_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
}

template <typename E>
inline void CopyTyped(const Bf16Windows& v) {
  // What the runs cover with the zeros behind the last one.
  const int64_t covered = v.runs == 0 ? 0 : (v.runs - 1) * v.n + (v.n + 31) / 32 * 32;
  for (int64_t w = 0; w < v.windows; ++w) {
    const E* from = static_cast<const E*>(v.from) + w * v.window_step;
    uint16_t* to = static_cast<uint16_t*>(v.to) + w * v.to_stride;
    for (int64_t r = 0; r < v.runs; ++r) CopyRun(from + r * v.run_step, v.n, to + r * v.n);
    for (int64_t i = covered; i < v.padded; i += 32) _mm512_storeu_si512(to + i, _mm512_setzero_si512());
  }
}

inline bool CopyWindows(const Bf16Windows& v) {
  v.from_f32 ? CopyTyped<float>(v) : CopyTyped<uint16_t>(v);
  return true;
}
