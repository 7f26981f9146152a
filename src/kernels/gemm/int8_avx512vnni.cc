// Byte tiles on AVX-512 with VNNI: VPDPBUSD sums four u8 x s8 products exactly in 32 bits. Signed A is flipped to A + 128.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <cstring>

#include "kernels/gemm/int8_tables.h"

namespace tenon::kernels::gemm {
namespace {

template <bool kSigned, int kVectors, int kRows>
void Product(const Int8Tile& t) {
  __m512i acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_setzero_si512();
  }
  const __m512i flip = _mm512_set1_epi8(-128);
  const int8_t* b = t.b;
  const int64_t stride = t.a_stride[0];
  for (int64_t p = 0; p < t.taps; ++p) {
    const uint8_t* a = t.a[0] + t.tap_offsets[0][p];
    for (int64_t k = 0; k < t.depth; k += 4, b += kVectors * 64) {
      __m512i w[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) w[v] = _mm512_loadu_si512(b + v * 64);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        int32_t four;
        std::memcpy(&four, a + r * stride + k, 4);
        __m512i x = _mm512_set1_epi32(four);
        if (kSigned) x = _mm512_xor_si512(x, flip);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_dpbusd_epi32(acc[r][v], x, w[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(t.sums + (r * kVectors + v) * 16, acc[r][v]);
  }
}

template <bool kSigned, int kVectors>
void TileKernel(const Int8Tile& t) {
  constexpr int kMost = kVectors == 4 ? 6 : kVectors == 3 ? 8 : 12;
#define TENON_ROWS(r) \
  case r:             \
    if constexpr (r <= kMost) Product<kSigned, kVectors, r>(t); \
    break;
  switch (t.rows) {
    TENON_ROWS(1)
    TENON_ROWS(2)
    TENON_ROWS(3)
    TENON_ROWS(4)
    TENON_ROWS(5)
    TENON_ROWS(6)
    TENON_ROWS(7)
    TENON_ROWS(8)
    TENON_ROWS(9)
    TENON_ROWS(10)
    TENON_ROWS(11)
    TENON_ROWS(12)
    default: break;
  }
}

using VF = __m512;
using VI = __m512i;
constexpr int kLanes = 16;
struct Mask {
  explicit Mask(int64_t n) : bits(n >= kLanes ? 0xFFFF : static_cast<__mmask16>((1U << n) - 1)) {}
  __mmask16 bits;
};
inline VI LoadI(const int32_t* p, Mask m) { return _mm512_maskz_loadu_epi32(m.bits, p); }
inline VF LoadF(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m.bits, p); }
inline VI LoadU8(const uint8_t* p, Mask m) { return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m.bits, p)); }
inline VI LoadI8(const uint8_t* p, Mask m) { return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(m.bits, p)); }
inline VF LoadBF16(const uint16_t* p, Mask m) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m.bits, p)), 16));
}
inline void StoreI(int32_t* p, VI v, Mask m) { _mm512_mask_storeu_epi32(p, m.bits, v); }
inline void StoreF(float* p, VF v, Mask m) { _mm512_mask_storeu_ps(p, m.bits, v); }
inline void StoreByte(uint8_t* p, VI v, Mask m) { _mm512_mask_cvtepi32_storeu_epi8(p, m.bits, v); }
inline void StoreWord(uint16_t* p, VI v, Mask m) { _mm512_mask_cvtepi32_storeu_epi16(p, m.bits, v); }
inline VI SetI(int32_t v) { return _mm512_set1_epi32(v); }
inline VF SetF(float v) { return _mm512_set1_ps(v); }
inline VI AddI(VI a, VI b) { return _mm512_add_epi32(a, b); }
inline VI SubI(VI a, VI b) { return _mm512_sub_epi32(a, b); }
inline VI MulI(VI a, VI b) { return _mm512_mullo_epi32(a, b); }
inline VI AndI(VI a, VI b) { return _mm512_and_si512(a, b); }
template <int kBits>
inline VI ShiftRight(VI a) { return _mm512_srli_epi32(a, kBits); }
inline VF ToFloat(VI a) { return _mm512_cvtepi32_ps(a); }
inline VI ToInt(VF a) { return _mm512_cvtps_epi32(a); }
inline VI Bits(VF a) { return _mm512_castps_si512(a); }
inline VF MulF(VF a, VF b) { return _mm512_mul_ps(a, b); }
inline VF AddF(VF a, VF b) { return _mm512_add_ps(a, b); }
inline VF SubF(VF a, VF b) { return _mm512_sub_ps(a, b); }
inline VF FmaF(VF a, VF b, VF c) { return _mm512_fmadd_ps(a, b, c); }
// The second operand where either is NaN.
inline VF MinF(VF a, VF b) { return _mm512_min_ps(a, b); }
inline VF MaxF(VF a, VF b) { return _mm512_max_ps(a, b); }
inline VF RoundF(VF a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline VF ZeroNan(VF a) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a); }
inline VI QuietNan(VF a, VI bits) {
  return _mm512_mask_mov_epi32(bits, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), _mm512_set1_epi32(0x7FC0));
}

#include "kernels/gemm/int8_finish.inl"

void RowSums(const Int8Tile& t, uint8_t flip, int32_t* sums) {
  const __m512i x = _mm512_set1_epi8(static_cast<char>(flip));
  for (int r = 0; r < t.rows; ++r) {
    __m512i acc = _mm512_setzero_si512();
    for (int64_t p = 0; p < t.taps; ++p) {
      const uint8_t* a = t.a[0] + t.tap_offsets[0][p] + r * t.a_stride[0];
      for (int64_t k = 0; k < t.depth; k += 64) {
        const __mmask64 m = t.depth - k >= 64 ? ~uint64_t{0} : (uint64_t{1} << (t.depth - k)) - 1;
        const __m512i v = _mm512_maskz_mov_epi8(m, _mm512_xor_si512(_mm512_maskz_loadu_epi8(m, a + k), x));
        acc = _mm512_add_epi64(acc, _mm512_sad_epu8(v, _mm512_setzero_si512()));
      }
    }
    sums[r] = static_cast<int32_t>(_mm512_reduce_add_epi64(acc));
  }
}

void RowSumsFlipped(const Int8Tile& t, bool is_signed, int32_t* sums) {
  RowSums(t, is_signed ? 0x80 : 0, sums);
}

}  // namespace

void FinishInt8Avx512(const Int8Finish& f) {
  Finish(f);
}

void ConvertInt8Avx512(const Int8Finish& f) {
  Convert(f);
}

void RowSumsInt8Avx512Plain(const Int8Tile& t, bool is_signed, int32_t* sums) {
  RowSums(t, is_signed ? 0x80 : 0, sums);
  const auto all = static_cast<int32_t>(t.taps * t.depth * (is_signed ? 128 : 0));
  for (int r = 0; r < t.rows; ++r) sums[r] -= all;
}

extern const Int8Kernels kInt8Avx512Vnni = {
    "avx512vnni",
    16,
    4,
    4,
    1,
    {0, 12, 12, 8, 6},
    true,
    {{nullptr, TileKernel<false, 1>, TileKernel<false, 2>, TileKernel<false, 3>, TileKernel<false, 4>},
     {nullptr, TileKernel<true, 1>, TileKernel<true, 2>, TileKernel<true, 3>, TileKernel<true, 4>}},
    nullptr,
    nullptr,
    FinishInt8Avx512,
    ConvertInt8Avx512,
    RowSumsFlipped,
};

}  // namespace tenon::kernels::gemm
