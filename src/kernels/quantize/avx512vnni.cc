// Quantisation loops and the byte product for AVX-512 with VNNI, whose VPDPBUSD sums four u8 x s8 products exactly in 32 bits.
#include <immintrin.h>

#include <cstring>

#include "kernels/quantize/simd.h"

namespace tenon::kernels::quantize {
namespace {

using Vec = __m512;
using IVec = __m512i;
constexpr int kLanes = 16;

inline Vec LoadF(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void StoreF(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
inline Vec SetF(float v) {
  return _mm512_set1_ps(v);
}
inline Vec DivF(Vec a, Vec b) {
  return _mm512_div_ps(a, b);
}
inline Vec MulF(Vec a, Vec b) {
  return _mm512_mul_ps(a, b);
}
inline Vec MinF(Vec a, Vec b) {
  return _mm512_min_ps(a, b);
}
inline Vec MaxF(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
inline Vec RoundF(Vec a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec ZeroNan(Vec a) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a);
}
inline IVec SetI(int32_t v) {
  return _mm512_set1_epi32(v);
}
inline IVec AddI(IVec a, IVec b) {
  return _mm512_add_epi32(a, b);
}
inline IVec SubI(IVec a, IVec b) {
  return _mm512_sub_epi32(a, b);
}
inline Vec ToFloat(IVec a) {
  return _mm512_cvtepi32_ps(a);
}
inline IVec ToInt(Vec a) {
  return _mm512_cvtps_epi32(a);
}
inline IVec LoadI(const int32_t* p) {
  return _mm512_loadu_si512(p);
}
inline IVec LoadBytes(const uint8_t* p, bool is_signed) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return is_signed ? _mm512_cvtepi8_epi32(b) : _mm512_cvtepu8_epi32(b);
}
inline void StoreBytes(uint8_t* p, IVec v, bool /*is_signed*/) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}
inline IVec MulI(IVec a, IVec b) {
  return _mm512_mullo_epi32(a, b);
}
inline void StoreI(int32_t* p, IVec v) {
  _mm512_storeu_si512(p, v);
}
inline IVec XorSum(const uint8_t* p, uint8_t flip, uint8_t* to, IVec acc) {
  const __m512i v = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(static_cast<char>(flip)));
  _mm512_storeu_si512(to, v);
  return _mm512_add_epi64(acc, _mm512_sad_epu8(v, _mm512_setzero_si512()));
}
inline uint32_t Total(IVec acc) {
  uint64_t parts[8];
  _mm512_storeu_si512(parts, acc);
  uint64_t sum = 0;
  for (uint64_t part : parts) sum += part;
  return static_cast<uint32_t>(sum);
}

#include "kernels/quantize/simd-inl.h"

constexpr int kColumns = 64;

template <int kRows>
void TileRows(const uint8_t* a, int64_t a_stride, int64_t groups, const int8_t* panel, int32_t* c) {
  __m512i acc[kRows][4];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) acc[i][v] = _mm512_setzero_si512();
  }
  for (int64_t g = 0; g < groups; ++g) {
    __m512i w[4];
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) w[v] = _mm512_loadu_si512(panel + v * 64);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int32_t four;
      std::memcpy(&four, a + i * a_stride + g * 4, 4);
      const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 8
      for (int v = 0; v < 4; ++v) acc[i][v] = _mm512_dpbusd_epi32(acc[i][v], x, w[v]);
    }
    panel += kColumns * 4;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) _mm512_storeu_si512(c + i * kColumns + v * 16, acc[i][v]);
  }
}

void Tile(int count, const uint8_t* a, int64_t a_stride, int64_t groups, const int8_t* panel, int32_t* c) {
  switch (count) {
    case 1: return TileRows<1>(a, a_stride, groups, panel, c);
    case 2: return TileRows<2>(a, a_stride, groups, panel, c);
    case 3: return TileRows<3>(a, a_stride, groups, panel, c);
    case 4: return TileRows<4>(a, a_stride, groups, panel, c);
    case 5: return TileRows<5>(a, a_stride, groups, panel, c);
    case 6: return TileRows<6>(a, a_stride, groups, panel, c);
    default: return;
  }
}

}  // namespace

const Simd kSimdAvx512Vnni = {6,      kColumns,   Quantize,   QuantizeEach, Dequantize, DequantizeEach,
                              MinMax, Requantize, FlipAndSum, Correct,      Tile};

}  // namespace tenon::kernels::quantize
