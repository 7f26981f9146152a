// Many rows of bytes times weights in blocks, for AVX-512 with VNNI: up to 12 rows by 32 columns, sums of a block exact.
// GCC 12 takes the deliberately undefined operands inside its own AVX-512 header for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/block_matmul/bytes.h"

namespace tenon::kernels::block_matmul {
namespace {

void Quantize(const float* x, int64_t k, int64_t blocks, const BytesForm& form, const BytesX& to) {
  int64_t apart = 0;
  for (int64_t b = 0; b < blocks; ++b, x += 32) {
    const int64_t left = k - b * 32;
    const __mmask32 mask = left >= 32 ? 0xffffffffU : (1U << left) - 1U;
    const __m512 x0 = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), x);
    const __m512 x1 = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), x + 16);
    const __m512 a0 = _mm512_abs_ps(x0), a1 = _mm512_abs_ps(x1), most = _mm512_max_ps(a0, a1);
    float max = _mm512_reduce_max_ps(most), rest = 0;
    const __m512 largest = _mm512_set1_ps(max);
    const uint32_t at = static_cast<uint32_t>(_mm512_cmp_ps_mask(a0, largest, _CMP_EQ_OQ)) |
                        static_cast<uint32_t>(_mm512_cmp_ps_mask(a1, largest, _CMP_EQ_OQ)) << 16;
    const int place = __builtin_ctz(at | 1U << 31);
    // Of the lane that holds the largest, the other element.
    const __m512 others = _mm512_mask_min_ps(most, static_cast<__mmask16>(1U << place % 16), a0, a1);
    const float next = _mm512_reduce_max_ps(others);
    if (max > kStandsOut * next) {
      const float value = x[place];
      rest = value < 0 ? value + next : value - next;
      max = next;
      to.places[apart] = static_cast<int32_t>(b * 32 + place), to.rests[apart] = rest;
      ++apart;
    }
    const __m512 inverse = _mm512_set1_ps(max > 0 ? 127.0f / max : 0.0f), high = _mm512_set1_ps(127.0f),
                 low = _mm512_set1_ps(-127.0f);
    const float scale = max / 127.0f;
    const auto codes = [&](__m512 v) {
      return _mm512_cvtps_epi32(_mm512_max_ps(_mm512_min_ps(_mm512_mul_ps(v, inverse), high), low));
    };
    const __m512i q0 = codes(x0), q1 = codes(x1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to.codes + b * 32), _mm512_cvtepi32_epi8(q0));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to.codes + b * 32 + 16), _mm512_cvtepi32_epi8(q1));
    to.scale[b] = scale;
    if (form.halves) {
      const int32_t s0 = _mm512_reduce_add_epi32(q0), s1 = _mm512_reduce_add_epi32(q1);
      to.start[2 * b] = -form.zero * s0, to.start[2 * b + 1] = -form.zero * s1;
      to.shifts[2 * b] = scale * static_cast<float>(s0) + (place < 16 ? rest : 0.0f);
      to.shifts[2 * b + 1] = scale * static_cast<float>(s1) + (place < 16 ? 0.0f : rest);
    } else {
      const int32_t sum = _mm512_reduce_add_epi32(_mm512_add_epi32(q0, q1));
      to.start[b] = -form.zero * sum;
      to.shifts[b] = scale * static_cast<float>(sum) + rest;
    }
  }
  *to.apart = apart;
}

__m512 Factor(const uint8_t* p, bool wide, int half) {
  if (wide) return _mm512_loadu_ps(reinterpret_cast<const float*>(p) + 16 * half);
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p) + half));
}

void Unpack(const uint8_t* w, const Layout& layout, const BytesForm& form, int64_t blocks, int vector, uint8_t* to) {
  const __m512i nibble = _mm512_set1_epi8(15);
  const int64_t step = layout.block_bytes(), code_bytes = layout.code_bytes(), scale_bytes = layout.scale_bytes();
  __m512i values = _mm512_setzero_si512();
  if (layout.table != nullptr) values = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(layout.table)));
  // What the form does not subtract from the codes is part of the minimum.
  const __m512 rest = _mm512_set1_ps(static_cast<float>(layout.zero - form.zero));
  for (int64_t b = 0; b < blocks; ++b, w += step, to += form.block_bytes()) {
    for (int j = 0; j < 4; ++j) {
      __m512i low = _mm512_loadu_si512(w + j * 64), high;
      if (layout.codes == Codes::kBytes) {
        high = _mm512_loadu_si512(w + 256 + j * 64);
      } else {
        high = _mm512_and_si512(_mm512_srli_epi16(low, 4), nibble);
        low = _mm512_and_si512(low, nibble);
        if (layout.table != nullptr) low = _mm512_shuffle_epi8(values, low), high = _mm512_shuffle_epi8(values, high);
      }
      _mm512_storeu_si512(to + (2 * j + vector) * 64, low);
      _mm512_storeu_si512(to + (8 + 2 * j + vector) * 64, high);
    }
    auto* factors = reinterpret_cast<float*>(to + 1024) + vector * 16;
    for (int half = 0; half < (form.halves ? 2 : 1); ++half, factors += 32) {
      const int at = layout.halves ? half : 0;
      const __m512 scale = Factor(w + code_bytes, layout.wide, at);
      _mm512_storeu_ps(factors, scale);
      if (!form.has_min) continue;
      const __m512 min = layout.has_min ? Factor(w + code_bytes + scale_bytes, layout.wide, at) : _mm512_setzero_ps();
      _mm512_storeu_ps(factors + (form.halves ? 64 : 32), _mm512_fmadd_ps(rest, scale, min));
    }
  }
}

template <int kRows>
struct Sums {
  __m512i v[kRows][2];
};

// Depth [first, first + kVectors * 4) of a block.
template <int kRows, int kVectors>
inline __attribute__((always_inline)) void Multiply(const uint8_t* w, const int8_t* const* x, int64_t at, Sums<kRows>* sums) {
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) {
    const __m512i w0 = _mm512_loadu_si512(w + j * 128), w1 = _mm512_loadu_si512(w + j * 128 + 64);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      __builtin_memcpy(&four, x[r] + at + j * 4, 4);
      const __m512i v = _mm512_set1_epi32(four);
      sums->v[r][0] = _mm512_dpbusd_epi32(sums->v[r][0], w0, v);
      sums->v[r][1] = _mm512_dpbusd_epi32(sums->v[r][1], w1, v);
    }
  }
}

template <int kRows, bool kHalves, bool kMin>
void Rows(const BytesTile& t) {
  constexpr int kParts = kHalves ? 2 : 1;
  const int8_t* x[kRows];
  for (int r = 0; r < kRows; ++r) {
    x[r] = t.x[r].codes;
    _mm512_storeu_ps(t.acc + r * 32, _mm512_setzero_ps());
    _mm512_storeu_ps(t.acc + r * 32 + 16, _mm512_setzero_ps());
  }
  const int64_t step = t.form->block_bytes();
  const uint8_t* w = t.panel;
  for (int64_t b = 0; b < t.blocks; ++b, w += step) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const int64_t at = b * kParts + part;
      Sums<kRows> sums;
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        sums.v[r][0] = kMin ? _mm512_setzero_si512() : _mm512_set1_epi32(t.x[r].start[at]);
        sums.v[r][1] = sums.v[r][0];
      }
      Multiply<kRows, 8 / kParts>(w + part * 512, x, b * 32 + part * 16, &sums);
      const float* factors = reinterpret_cast<const float*>(w + 1024) + part * 32;
      const float* minima = factors + kParts * 32;
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const __m512 scale = _mm512_loadu_ps(factors + v * 16);
        __m512 min;
        if constexpr (kMin) min = _mm512_loadu_ps(minima + v * 16);
#pragma GCC unroll 12
        for (int r = 0; r < kRows; ++r) {
          float* to = t.acc + r * 32 + v * 16;
          __m512 y = _mm512_loadu_ps(to);
          if constexpr (kMin) y = _mm512_fnmadd_ps(min, _mm512_set1_ps(t.x[r].shifts[at]), y);
          y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums.v[r][v]), _mm512_mul_ps(scale, _mm512_set1_ps(t.x[r].scale[b])), y);
          _mm512_storeu_ps(to, y);
        }
      }
    }
  }
}

// What stands out in a row, element by element.
template <bool kHalves, bool kMin>
void AddApart(const BytesTile& t) {
  const int64_t step = t.form->block_bytes();
  const __m512i byte = _mm512_set1_epi32(255), zero = _mm512_set1_epi32(t.form->zero);
  for (int64_t r = 0; r < t.rows; ++r) {
    const BytesX& x = t.x[r];
    const int64_t apart = *x.apart;
    if (apart == 0) continue;
    __m512 y0 = _mm512_loadu_ps(t.acc + r * 32), y1 = _mm512_loadu_ps(t.acc + r * 32 + 16);
    for (int64_t i = 0; i < apart; ++i) {
      const int32_t place = x.places[i];
      const uint8_t* block = t.panel + place / 32 * step;
      const uint8_t* codes = block + place % 32 / 4 * 128;
      const float* scales = reinterpret_cast<const float*>(block + 1024) + (kHalves ? place % 32 / 16 * 32 : 0);
      const __m128i shift = _mm_cvtsi32_si128(place % 4 * 8);
      const __m512 rest = _mm512_set1_ps(x.rests[i]);
      const auto code = [&](const uint8_t* p) {
        const __m512i c = _mm512_and_si512(_mm512_srl_epi32(_mm512_loadu_si512(p), shift), byte);
        return _mm512_cvtepi32_ps(kMin ? c : _mm512_sub_epi32(c, zero));
      };
      y0 = _mm512_fmadd_ps(code(codes), _mm512_mul_ps(rest, _mm512_loadu_ps(scales)), y0);
      y1 = _mm512_fmadd_ps(code(codes + 64), _mm512_mul_ps(rest, _mm512_loadu_ps(scales + 16)), y1);
    }
    _mm512_storeu_ps(t.acc + r * 32, y0);
    _mm512_storeu_ps(t.acc + r * 32 + 16, y1);
  }
}

template <bool kHalves, bool kMin>
void ByRows(const BytesTile& t) {
  using Function = void (*)(const BytesTile&);
  static constexpr Function kByRows[] = {nullptr,
                                         Rows<1, kHalves, kMin>,
                                         Rows<2, kHalves, kMin>,
                                         Rows<3, kHalves, kMin>,
                                         Rows<4, kHalves, kMin>,
                                         Rows<5, kHalves, kMin>,
                                         Rows<6, kHalves, kMin>,
                                         Rows<7, kHalves, kMin>,
                                         Rows<8, kHalves, kMin>,
                                         Rows<9, kHalves, kMin>,
                                         Rows<10, kHalves, kMin>,
                                         Rows<11, kHalves, kMin>,
                                         Rows<12, kHalves, kMin>};
  kByRows[t.rows](t);
  AddApart<kHalves, kMin>(t);
}

void Tile(const BytesTile& t) {
  if (t.form->halves) return t.form->has_min ? ByRows<true, true>(t) : ByRows<true, false>(t);
  return t.form->has_min ? ByRows<false, true>(t) : ByRows<false, false>(t);
}

}  // namespace

extern const BytesInner kBytesAvx512Vnni = {12, Quantize, Unpack, Tile};

}  // namespace tenon::kernels::block_matmul
