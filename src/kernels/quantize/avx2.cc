// Quantisation loops and the exact byte product for AVX2. The instruction that multiplies bytes adds pairs in saturating 16 bits,
// so bytes are widened to 16 bits first.
#include <immintrin.h>

#include <cstring>

#include "kernels/quantize/simd.h"

namespace tenon::kernels::quantize {
namespace {

using Vec = __m256;
using IVec = __m256i;
constexpr int kLanes = 8;

inline Vec LoadF(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void StoreF(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
inline Vec SetF(float v) {
  return _mm256_set1_ps(v);
}
inline Vec DivF(Vec a, Vec b) {
  return _mm256_div_ps(a, b);
}
inline Vec MulF(Vec a, Vec b) {
  return _mm256_mul_ps(a, b);
}
inline Vec MinF(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
inline Vec MaxF(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
inline Vec RoundF(Vec a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec ZeroNan(Vec a) {
  return _mm256_and_ps(a, _mm256_cmp_ps(a, a, _CMP_ORD_Q));
}
inline IVec SetI(int32_t v) {
  return _mm256_set1_epi32(v);
}
inline IVec AddI(IVec a, IVec b) {
  return _mm256_add_epi32(a, b);
}
inline IVec SubI(IVec a, IVec b) {
  return _mm256_sub_epi32(a, b);
}
inline Vec ToFloat(IVec a) {
  return _mm256_cvtepi32_ps(a);
}
inline IVec ToInt(Vec a) {
  return _mm256_cvtps_epi32(a);
}
inline IVec LoadI(const int32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline IVec LoadBytes(const uint8_t* p, bool is_signed) {
  const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return is_signed ? _mm256_cvtepi8_epi32(b) : _mm256_cvtepu8_epi32(b);
}
inline void StoreBytes(uint8_t* p, IVec v, bool is_signed) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), is_signed ? _mm_packs_epi16(words, words) : _mm_packus_epi16(words, words));
}
inline IVec MulI(IVec a, IVec b) {
  return _mm256_mullo_epi32(a, b);
}
inline void StoreI(int32_t* p, IVec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}
inline IVec XorSum(const uint8_t* p, uint8_t flip, uint8_t* to, IVec acc) {
  const __m256i v =
      _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm256_set1_epi8(static_cast<char>(flip)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
  return _mm256_add_epi64(acc, _mm256_sad_epu8(v, _mm256_setzero_si256()));
}
inline uint32_t Total(IVec acc) {
  uint64_t parts[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(parts), acc);
  return static_cast<uint32_t>(parts[0] + parts[1] + parts[2] + parts[3]);
}

#include "kernels/quantize/simd-inl.h"

constexpr int kColumns = 16;

// Four columns of four bytes each fill one register of 16-bit words; madd leaves two sums a column, added at the end.
template <int kRows>
void TileRows(const uint8_t* a, int64_t a_stride, int64_t groups, const int8_t* panel, int32_t* c) {
  __m256i acc[kRows][4];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) acc[i][v] = _mm256_setzero_si256();
  }
  for (int64_t g = 0; g < groups; ++g) {
    __m256i x[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int32_t four;
      std::memcpy(&four, a + i * a_stride + g * 4, 4);
      x[i] = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
    }
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) {
      const __m256i w = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(panel + v * 16)));
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) acc[i][v] = _mm256_add_epi32(acc[i][v], _mm256_madd_epi16(x[i], w));
    }
    panel += kColumns * 4;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < 4; v += 2) {
      // hadd works within 128-bit halves: columns 0 1 4 5 2 3 6 7.
      const __m256i mixed = _mm256_hadd_epi32(acc[i][v], acc[i][v + 1]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(c + i * kColumns + v * 4), _mm256_permute4x64_epi64(mixed, 0xD8));
    }
  }
}

void Tile(int count, const uint8_t* a, int64_t a_stride, int64_t groups, const int8_t* panel, int32_t* c) {
  if (count == 2) return TileRows<2>(a, a_stride, groups, panel, c);
  TileRows<1>(a, a_stride, groups, panel, c);
}

}  // namespace

const Simd kSimdAvx2 = {2,      kColumns,   Quantize,   QuantizeEach, Dequantize, DequantizeEach,
                        MinMax, Requantize, FlipAndSum, Correct,      Tile};

}  // namespace tenon::kernels::quantize
