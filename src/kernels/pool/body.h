// The inner loops of f32 and bf16 pooling for one instruction set; included by avx2.cc and avx512.cc, which name the table.
#include "kernels/pool/inner.h"
#include "kernels/vec_f32.h"

namespace tenon::kernels::pool {
namespace {

inline V At(const float* p, int64_t k) {
  return k == kLanes ? Load(p) : LoadPart(p, k);
}
inline void Put(float* p, V v, int64_t k) {
  if (k == kLanes) {
    Store(p, v);
  } else {
    StorePart(p, v, k);
  }
}
// The second operand wins against NaN: a NaN tap is passed over.
inline V Combine(bool max, V acc, V x) {
  return max ? Max(x, acc) : Add(acc, x);
}

void Accumulate(bool max, bool first, const float* x, float* acc, int64_t n) {
  const V least = Set1(-__builtin_inff());
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t k = n - i < kLanes ? n - i : kLanes;
    const V v = At(x + i, k);
    if (first) {
      Put(acc + i, max ? Max(v, least) : v, k);
    } else {
      Put(acc + i, Combine(max, At(acc + i, k), v), k);
    }
  }
}

// Elements 0, 2, 4, ... of the 2 * kLanes at p.
inline V Even(const float* p) {
#if defined(__AVX512F__)
  const __m512i index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(Load(p), index, Load(p + kLanes));
#else
  const __m256 mixed = _mm256_shuffle_ps(Load(p), Load(p + kLanes), 0x88);
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
#endif
}

void Slide(bool max, const float* row, float* y, int64_t n, int64_t kernel, int64_t stride, int64_t dilation,
           const float* scale) {
  if (stride > 2) {
    for (int64_t i = 0; i < n; ++i) {
      const float* p = row + i * stride;
      float acc = p[0];
      for (int64_t k = 1; k < kernel; ++k) {
        const float v = p[k * dilation];
        acc = max ? (v > acc ? v : acc) : acc + v;
      }
      y[i] = scale != nullptr ? acc * scale[i] : acc;
    }
    return;
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t lanes = n - i < kLanes ? n - i : kLanes;
    const float* p = row + i * stride;
    V acc = stride == 1 ? Load(p) : Even(p);
    for (int64_t k = 1; k < kernel; ++k) {
      const float* q = p + k * dilation;
      acc = Combine(max, acc, stride == 1 ? Load(q) : Even(q));
    }
    if (scale != nullptr) acc = Mul(acc, At(scale + i, lanes));
    Put(y + i, acc, lanes);
  }
}

inline V At(const uint16_t* p, int64_t k) {
#if defined(__AVX512F__)
  const __m256i raw =
      k == kLanes ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)) : _mm256_maskz_loadu_epi16(FirstMask(k), p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
#else
  alignas(16) uint16_t all[8] = {};
  for (int64_t i = 0; i < k; ++i) all[i] = p[i];
  const __m128i raw =
      k == kLanes ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)) : _mm_load_si128(reinterpret_cast<const __m128i*>(all));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
#endif
}
// Rounds to nearest even; NaN stays NaN.
inline void Put(uint16_t* p, V v, int64_t k) {
#if defined(__AVX512F__)
  const __m512i x = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i r = _mm512_mask_or_epi32(sum, Nan(v), x, _mm512_set1_epi32(0x400000));
  _mm256_mask_storeu_epi16(p, FirstMask(k), _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
#else
  const __m256i x = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(x, _mm256_set1_epi32(0x400000)));
  const __m256i r = _mm256_srli_epi32(_mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(sum), quiet, Nan(v))), 16);
  alignas(16) uint16_t all[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(all), _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)));
  for (int64_t i = 0; i < k; ++i) p[i] = all[i];
#endif
}

template <typename E>
void Channels(bool max, const E* x, int64_t rows, int64_t cols, int64_t row_step, int64_t col_step, int64_t channels, float scale,
              E* y) {
  const V start = max ? Set1(-__builtin_inff()) : Zero();
  const V factor = Set1(scale);
  int64_t c = 0;
  for (; c + 4 * kLanes <= channels; c += 4 * kLanes) {
    V a0 = start, a1 = start, a2 = start, a3 = start;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t q = 0; q < cols; ++q) {
        const E* p = x + r * row_step + q * col_step + c;
        a0 = Combine(max, a0, At(p, kLanes));
        a1 = Combine(max, a1, At(p + kLanes, kLanes));
        a2 = Combine(max, a2, At(p + 2 * kLanes, kLanes));
        a3 = Combine(max, a3, At(p + 3 * kLanes, kLanes));
      }
    }
    if (!max) a0 = Mul(a0, factor), a1 = Mul(a1, factor), a2 = Mul(a2, factor), a3 = Mul(a3, factor);
    Put(y + c, a0, kLanes), Put(y + c + kLanes, a1, kLanes), Put(y + c + 2 * kLanes, a2, kLanes),
        Put(y + c + 3 * kLanes, a3, kLanes);
  }
  for (; c < channels; c += kLanes) {
    const int64_t k = channels - c < kLanes ? channels - c : kLanes;
    V acc = start;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t q = 0; q < cols; ++q) acc = Combine(max, acc, At(x + r * row_step + q * col_step + c, k));
    }
    Put(y + c, max ? acc : Mul(acc, factor), k);
  }
}

}  // namespace
}  // namespace tenon::kernels::pool
