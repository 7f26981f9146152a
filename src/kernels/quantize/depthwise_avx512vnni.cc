// Byte depthwise convolution on AVX-512 with VNNI.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/quantize/depthwise.h"

namespace tenon::kernels::quantize {
namespace {

using gemm::Int8Finish;
using gemm::Int8Kind;
#include "kernels/gemm/int8_bound.inl"

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

// Quarter j of vector i becomes quarter i of vector j: between channels in order and quads.
inline void TurnQuarters(VI* a) {
  const VI low01 = _mm512_shuffle_i32x4(a[0], a[1], 0x44), high01 = _mm512_shuffle_i32x4(a[0], a[1], 0xEE);
  const VI low23 = _mm512_shuffle_i32x4(a[2], a[3], 0x44), high23 = _mm512_shuffle_i32x4(a[2], a[3], 0xEE);
  a[0] = _mm512_shuffle_i32x4(low01, low23, 0x88);
  a[1] = _mm512_shuffle_i32x4(low01, low23, 0xDD);
  a[2] = _mm512_shuffle_i32x4(high01, high23, 0x88);
  a[3] = _mm512_shuffle_i32x4(high01, high23, 0xDD);
}

inline void StoreQuads(VI* a, int32_t* to) {
  TurnQuarters(a);
  for (int i = 0; i < 4; ++i) Store(to + 16 * i, a[i]);
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

// All rows of the windows of neighbouring pixels, 64 channels in four quads.
template <int kColumns, int kStride, int kPixels>
[[gnu::always_inline]] inline void Rows(const DepthwiseColumns& s, const uint8_t* x, const int8_t* w, __mmask64 mask,
                                        VI (*acc)[4]) {
  int rows = s.rows;
  for (; rows >= 4; rows -= 4, x += 4 * s.row_step, w += kColumns * 256) Group<4, kColumns, kStride, kPixels>(s, x, w, mask, acc);
  if (rows == 3) Group<3, kColumns, kStride, kPixels>(s, x, w, mask, acc);
  if (rows == 2) Group<2, kColumns, kStride, kPixels>(s, x, w, mask, acc);
  if (rows == 1) Group<1, kColumns, kStride, kPixels>(s, x, w, mask, acc);
}

template <int kColumns, int kStride, int kPixels>
inline void BlockOf(const DepthwiseColumns& s, const uint8_t* x, const int8_t* w, __mmask64 mask, int32_t* sums) {
  VI acc[kPixels][4];
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) acc[p][0] = acc[p][1] = acc[p][2] = acc[p][3] = Zero();
  Rows<kColumns, kStride, kPixels>(s, x, w, mask, acc);
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) StoreQuads(acc[p], sums + p * s.sums_step);
}

inline __mmask64 MaskOf(int64_t left) {
  return left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
}
inline int64_t BlockBytes(const DepthwiseColumns& s, int columns) {
  return static_cast<int64_t>((s.rows + 3) / 4) * columns * 256;
}

template <int kColumns, int kStride>
void Columns(const DepthwiseColumns& s) {
  constexpr int kMost = 4;
  const int64_t block_bytes = BlockBytes(s, kColumns);
  const int8_t* w = s.w;
  for (int64_t c = 0; c < s.channels; c += kColumnsBlock, w += block_bytes) {
    const __mmask64 mask = MaskOf(s.channels - c);
    int64_t p = 0;
    for (; p + kMost <= s.pixels; p += kMost) {
      BlockOf<kColumns, kStride, kMost>(s, s.x + p * s.pixel_step + c, w, mask, s.sums + p * s.sums_step + c);
    }
    for (; p < s.pixels; ++p) BlockOf<kColumns, kStride, 1>(s, s.x + p * s.pixel_step + c, w, mask, s.sums + p * s.sums_step + c);
  }
}

// What becomes of the sums of 64 channels, in the order of the quads.
struct QuadFinish {
  VI offset[4];
  __m512 scale[4], bias[4];
  VI zero, low, high;
  bool is_signed;
  int64_t y_stride;
  __mmask64 mask;

  QuadFinish(const Int8Finish& f, int64_t c, __mmask64 channels)
      : zero(_mm512_set1_epi16(static_cast<int16_t>(f.y_zero))),
        low(Bound(f, f.kind == Int8Kind::kI8, f.lo)),
        high(Bound(f, f.kind == Int8Kind::kI8, f.hi)),
        is_signed(f.kind == Int8Kind::kI8),
        y_stride(f.y_stride),
        mask(channels) {
    VI scales[4], biases[4];
    for (int i = 0; i < 4; ++i) {
      const auto part = static_cast<__mmask16>(channels >> (16 * i));
      if (part == 0) {
        offset[i] = scales[i] = biases[i] = Zero();
        continue;
      }
      offset[i] = _mm512_maskz_loadu_epi32(part, f.offset + c + 16 * i);
      scales[i] = _mm512_castps_si512(_mm512_maskz_loadu_ps(part, f.scale + c + 16 * i));
      biases[i] = f.bias != nullptr ? _mm512_castps_si512(_mm512_maskz_loadu_ps(part, f.bias + c + 16 * i)) : Zero();
    }
    TurnQuarters(offset);
    TurnQuarters(scales);
    TurnQuarters(biases);
    for (int i = 0; i < 4; ++i) scale[i] = _mm512_castsi512_ps(scales[i]), bias[i] = _mm512_castsi512_ps(biases[i]);
  }
};

// One pixel; packing quads leaves the channels in order.
inline void StoreBytes(const QuadFinish& f, const VI* acc, uint8_t* y) {
  VI v[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[q]), f.scale[q], f.bias[q]);
    // Beyond the range of int32 the conversion gives its least value, which is right below and wrong above.
    v[q] = _mm512_cvtps_epi32(_mm512_min_ps(value, _mm512_set1_ps(1e6F)));
  }
  const VI a = _mm512_adds_epi16(_mm512_packs_epi32(v[0], v[1]), f.zero);
  const VI b = _mm512_adds_epi16(_mm512_packs_epi32(v[2], v[3]), f.zero);
  const VI bytes = f.is_signed ? _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(a, b), f.low), f.high)
                               : _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(a, b), f.low), f.high);
  _mm512_mask_storeu_epi8(y, f.mask, bytes);
}

template <int kColumns, int kStride, int kPixels>
inline void BytesOf(const DepthwiseColumns& s, const uint8_t* x, const int8_t* w, const QuadFinish& f, uint8_t* y) {
  VI acc[kPixels][4];
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) acc[p][q] = f.offset[q];
  }
  Rows<kColumns, kStride, kPixels>(s, x, w, f.mask, acc);
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) StoreBytes(f, acc[p], y + p * f.y_stride);
}

template <int kColumns, int kStride>
void ToBytes(const DepthwiseColumns& s, const Int8Finish& finish) {
  constexpr int kMost = 4;
  const int64_t block_bytes = BlockBytes(s, kColumns);
  const int8_t* w = s.w;
  for (int64_t c = 0; c < s.channels; c += kColumnsBlock, w += block_bytes) {
    const QuadFinish f(finish, c, MaskOf(s.channels - c));
    const uint8_t* x = s.x + c;
    auto* y = static_cast<uint8_t*>(finish.y) + c;
    int64_t p = 0;
    for (; p + kMost <= s.pixels; p += kMost, x += kMost * s.pixel_step, y += kMost * f.y_stride) {
      BytesOf<kColumns, kStride, kMost>(s, x, w, f, y);
    }
    switch (s.pixels - p) {
      case 3: BytesOf<kColumns, kStride, 3>(s, x, w, f, y); break;
      case 2: BytesOf<kColumns, kStride, 2>(s, x, w, f, y); break;
      case 1: BytesOf<kColumns, kStride, 1>(s, x, w, f, y); break;
      default: break;
    }
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

ColumnsToBytes ColumnsToBytesAvx512Vnni(int64_t columns, int64_t stride) {
  if (columns == 3) return stride == 1 ? ToBytes<3, 1> : stride == 2 ? ToBytes<3, 2> : nullptr;
  if (columns == 5) return stride == 1 ? ToBytes<5, 1> : stride == 2 ? ToBytes<5, 2> : nullptr;
  return nullptr;
}

}  // namespace tenon::kernels::quantize
