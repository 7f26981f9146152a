// Byte depthwise convolution on AVX-512 with VNNI.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/quantize/depthwise.h"

namespace tenon::kernels::quantize {
namespace {

using VI = __m512i;
constexpr int kLanes = 16;
inline VI Zero() {
  return _mm512_setzero_si512();
}
inline VI LoadW(const int32_t* p) {
  return _mm512_loadu_si512(p);
}
inline void Store(int32_t* p, VI v) {
  _mm512_storeu_si512(p, v);
}
template <bool kSigned>
inline VI LoadBytes(const uint8_t* p) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return kSigned ? _mm512_cvtepi8_epi32(b) : _mm512_cvtepu8_epi32(b);
}
inline VI MultiplyAdd(VI acc, VI x, VI w) {
  return _mm512_dpwssd_epi32(acc, x, w);
}

#include "kernels/quantize/depthwise.inl"

// Four vectors of 16 channels times four rows from rows of 64 channels; absent rows are 0.
template <int kRows>
inline void Unpack(const uint8_t* x, int64_t row_step, __mmask64 mask, VI* quads) {
  VI row[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) row[i] = i < kRows ? _mm512_maskz_loadu_epi8(mask, x + i * row_step) : Zero();
  const VI low01 = _mm512_unpacklo_epi8(row[0], row[1]), high01 = _mm512_unpackhi_epi8(row[0], row[1]);
  const VI low23 = _mm512_unpacklo_epi8(row[2], row[3]), high23 = _mm512_unpackhi_epi8(row[2], row[3]);
  quads[0] = _mm512_unpacklo_epi16(low01, low23);
  quads[1] = _mm512_unpackhi_epi16(low01, low23);
  quads[2] = _mm512_unpacklo_epi16(high01, high23);
  quads[3] = _mm512_unpackhi_epi16(high01, high23);
}

// Sums of 64 channels, put back in order.
inline void StoreQuads(const VI* a, int32_t* to) {
  const VI low01 = _mm512_shuffle_i32x4(a[0], a[1], 0x44), high01 = _mm512_shuffle_i32x4(a[0], a[1], 0xEE);
  const VI low23 = _mm512_shuffle_i32x4(a[2], a[3], 0x44), high23 = _mm512_shuffle_i32x4(a[2], a[3], 0xEE);
  Store(to, _mm512_shuffle_i32x4(low01, low23, 0x88));
  Store(to + 16, _mm512_shuffle_i32x4(low01, low23, 0xDD));
  Store(to + 32, _mm512_shuffle_i32x4(high01, high23, 0x88));
  Store(to + 48, _mm512_shuffle_i32x4(high01, high23, 0xDD));
}

template <int kRows, int kColumns, int kStride, int kPixels>
inline void Group(const DepthwiseColumns& s, const uint8_t* x, const int8_t* w, __mmask64 mask, VI (*acc)[4]) {
#pragma GCC unroll 16
  for (int column = 0; column < (kPixels - 1) * kStride + kColumns; ++column) {
    VI quads[4];
    Unpack<kRows>(x + column * s.column_step, s.row_step, mask, quads);
#pragma GCC unroll 4
    for (int p = 0; p < kPixels; ++p) {
      const int tap = column - p * kStride;
      if (tap < 0 || tap >= kColumns) continue;
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q)
        acc[p][q] = _mm512_dpbusd_epi32(acc[p][q], quads[q], _mm512_loadu_si512(w + (tap * 4 + q) * 64));
    }
  }
}

template <int kColumns, int kStride, int kPixels>
inline void BlockOf(const DepthwiseColumns& s, const uint8_t* x, const int8_t* w, __mmask64 mask, int32_t* sums) {
  VI acc[kPixels][4];
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) acc[p][0] = acc[p][1] = acc[p][2] = acc[p][3] = Zero();
  int rows = s.rows;
  for (; rows >= 4; rows -= 4, x += 4 * s.row_step, w += kColumns * 256) Group<4, kColumns, kStride, kPixels>(s, x, w, mask, acc);
  if (rows == 3) Group<3, kColumns, kStride, kPixels>(s, x, w, mask, acc);
  if (rows == 2) Group<2, kColumns, kStride, kPixels>(s, x, w, mask, acc);
  if (rows == 1) Group<1, kColumns, kStride, kPixels>(s, x, w, mask, acc);
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) StoreQuads(acc[p], sums + p * s.sums_step);
}

template <int kColumns, int kStride>
void Columns(const DepthwiseColumns& s) {
  constexpr int kMost = 4;
  const int64_t block_bytes = static_cast<int64_t>((s.rows + 3) / 4) * kColumns * 256;
  const int8_t* w = s.w;
  for (int64_t c = 0; c < s.channels; c += kColumnsBlock, w += block_bytes) {
    const int64_t left = s.channels - c;
    const __mmask64 mask = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    int64_t p = 0;
    for (; p + kMost <= s.pixels; p += kMost) {
      BlockOf<kColumns, kStride, kMost>(s, s.x + p * s.pixel_step + c, w, mask, s.sums + p * s.sums_step + c);
    }
    for (; p < s.pixels; ++p) BlockOf<kColumns, kStride, 1>(s, s.x + p * s.pixel_step + c, w, mask, s.sums + p * s.sums_step + c);
  }
}

}  // namespace

void DepthwiseInt8Avx512Vnni(const DepthwiseStrip& s) {
  if (s.is_signed)
    Strip<true>(s);
  else
    Strip<false>(s);
}

ColumnsFunction ColumnsInt8Avx512Vnni(int64_t columns, int64_t stride) {
  if (columns == 3) return stride == 1 ? Columns<3, 1> : stride == 2 ? Columns<3, 2> : nullptr;
  if (columns == 5) return stride == 1 ? Columns<5, 1> : stride == 2 ? Columns<5, 2> : nullptr;
  return nullptr;
}

}  // namespace tenon::kernels::quantize
