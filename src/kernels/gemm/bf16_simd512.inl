// What the AVX-512 files of the bf16 product share: loads, stores and packing. Included inside an anonymous namespace after
// vec_avx512.inl; the file defines StoreBf first.

inline __m512 LoadBf(const uint16_t* p, int64_t n) {
  const __m256i raw = n == 16 ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)) : _mm256_maskz_loadu_epi16(Vec::Mask(n), p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}

// Row-major B, whole panel of columns: interleaves two rows.
inline void PackPairs(const uint16_t* b, int64_t k, int64_t n, int64_t k_stride, uint16_t* to) {
  const __m512i spread = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20,
                                          4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __mmask32 mask = n >= 32 ? 0xffffffffU : (1U << n) - 1U;
  const int64_t padded = (k + kBf16Depth - 1) / kBf16Depth * kBf16Depth;
  for (int64_t kk = 0; kk < padded; kk += 2, b += 2 * k_stride) {
    const __m512i even = kk < k ? _mm512_maskz_loadu_epi16(mask, b) : _mm512_setzero_si512();
    const __m512i odd = kk + 1 < k ? _mm512_maskz_loadu_epi16(mask, b + k_stride) : _mm512_setzero_si512();
    uint16_t* block = to + kk / kBf16Depth * (kBf16Depth * kBf16Panel) + kk % kBf16Depth / 2 * 32;
    const __m512i low = _mm512_inserti64x4(even, _mm512_castsi512_si256(odd), 1);
    const __m512i high = _mm512_shuffle_i64x2(even, odd, 0xee);
    _mm512_storeu_si512(block, _mm512_permutexvar_epi16(spread, low));
    _mm512_storeu_si512(block + 512, _mm512_permutexvar_epi16(spread, high));
  }
}

// B whose columns are contiguous: pairs of k are 32-bit elements of a matrix to be transposed.
inline void PackTransposed(const uint16_t* b, int64_t k, int64_t n, int64_t n_stride, uint16_t* to) {
  for (int64_t k0 = 0; k0 < k; k0 += kBf16Depth, to += kBf16Depth * kBf16Panel) {
    const int64_t depth = k - k0 < kBf16Depth ? k - k0 : kBf16Depth;
    const __mmask32 mask = depth >= 32 ? 0xffffffffU : (1U << depth) - 1U;
    for (int64_t half = 0; half < 2; ++half) {
      __m512 rows[16];
      for (int64_t c = 0; c < 16; ++c) {
        const int64_t column = half * 16 + c;
        rows[c] = column < n ? _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, b + column * n_stride + k0)) : Vec::Zero();
      }
      Vec::Transpose(rows);
      for (int64_t pair = 0; pair < 16; ++pair) Vec::Store(reinterpret_cast<float*>(to + half * 512 + pair * 32), rows[pair]);
    }
  }
}

void PackBf16Panel(const uint16_t* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, uint16_t* to) {
  if (n_stride == 1) {
    PackPairs(b, k, n, k_stride, to);
  } else if (k_stride == 1) {
    PackTransposed(b, k, n, n_stride, to);
  } else {
    PackPanelPlain(b, k, n, k_stride, n_stride, to);
  }
}
