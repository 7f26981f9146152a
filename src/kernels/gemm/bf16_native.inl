// What the files for CPUs with AVX512_BF16 share. Included inside an anonymous namespace after bf16_store_native.inl.

inline __m512 RoundBf(__m512 v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v))), 16));
}

inline void StoreRow(uint16_t* p, const __m512* v) {
  _mm512_storeu_si512(p, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(v[1], v[0])));
}

// Up to 32 elements a store; the next run covers what a store wrote behind its own.
inline __mmask32 FirstOf32(int64_t n) {
  return n >= 32 ? 0xffffffffU : (1U << n) - 1U;
}
inline void CopyPiece(const uint16_t* from, __mmask32 mask, uint16_t* to) {
  _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(mask, from));
}
inline void CopyPiece(const float* from, __mmask32 mask, uint16_t* to) {
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + 16);
  _mm512_storeu_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
}

template <typename E>
inline void CopyRun(const E* from, int64_t n, __mmask32 last, uint16_t* to) {
  for (; n > 32; n -= 32, from += 32, to += 32) CopyPiece(from, 0xffffffffU, to);
  CopyPiece(from, last, to);
}

template <typename E>
inline void CopyTyped(const Bf16Windows& v) {
  // What the runs cover with the zeros behind the last one.
  const int64_t covered = v.runs == 0 ? 0 : (v.runs - 1) * v.n + (v.n + 31) / 32 * 32;
  const __mmask32 last = FirstOf32(v.n <= 32 ? v.n : (v.n - 1) % 32 + 1);
  const bool one_piece = v.n <= 32;
  for (int64_t w = 0; w < v.windows; ++w) {
    const E* from = static_cast<const E*>(v.from) + w * v.window_step;
    uint16_t* to = static_cast<uint16_t*>(v.to) + w * v.to_stride;
    for (int64_t r = 0; r < v.runs; ++r, from += v.run_step, to += v.n) {
      one_piece ? CopyPiece(from, last, to) : CopyRun(from, v.n, last, to);
    }
    to = static_cast<uint16_t*>(v.to) + w * v.to_stride;
    for (int64_t i = covered; i < v.padded; i += 32) _mm512_storeu_si512(to + i, _mm512_setzero_si512());
  }
}

inline bool CopyWindows(const Bf16Windows& v) {
  v.from_f32 ? CopyTyped<float>(v) : CopyTyped<uint16_t>(v);
  return true;
}
