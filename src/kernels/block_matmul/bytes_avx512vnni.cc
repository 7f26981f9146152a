// Many rows of bytes times weights in blocks, for AVX-512 with VNNI: up to 7 rows by 32 columns, whose sums stay in
// registers; sums of a block are exact.
// GCC 12 takes the deliberately undefined operands inside its own AVX-512 header for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/block_matmul/bytes.h"

namespace tenon::kernels::block_matmul {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/v16/avx512.inl"
#include "kernels/block_matmul/factors.inl"
#include "kernels/block_matmul/forms.inl"
#include "kernels/block_matmul/codes_avx512.inl"
// clang-format on

// The largest element and the largest of the others.
struct Two {
  __m512 first, next;
};

Two Merge(const Two& a, const Two& b) {
  return {_mm512_max_ps(a.first, b.first), _mm512_max_ps(_mm512_min_ps(a.first, b.first), _mm512_max_ps(a.next, b.next))};
}
Two Merge32(const Two& a, const Two& b) {
  return Merge({_mm512_unpacklo_ps(a.first, b.first), _mm512_unpacklo_ps(a.next, b.next)},
               {_mm512_unpackhi_ps(a.first, b.first), _mm512_unpackhi_ps(a.next, b.next)});
}
Two Merge64(const Two& a, const Two& b) {
  const auto low = [](__m512 p, __m512 q) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(p), _mm512_castps_pd(q)));
  };
  const auto high = [](__m512 p, __m512 q) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(p), _mm512_castps_pd(q)));
  };
  return Merge({low(a.first, b.first), low(a.next, b.next)}, {high(a.first, b.first), high(a.next, b.next)});
}
template <int kEven, int kOdd>
Two Merge128(const Two& a, const Two& b) {
  return Merge({_mm512_shuffle_f32x4(a.first, b.first, kEven), _mm512_shuffle_f32x4(a.next, b.next, kEven)},
               {_mm512_shuffle_f32x4(a.first, b.first, kOdd), _mm512_shuffle_f32x4(a.next, b.next, kOdd)});
}

// Lane r: of all lanes of v[r].
Two AcrossLanes(const Two (&v)[8]) {
  const Two low = Merge64(Merge32(v[0], v[1]), Merge32(v[2], v[3])), high = Merge64(Merge32(v[4], v[5]), Merge32(v[6], v[7]));
  const Two half = Merge128<0x88, 0xdd>(low, high);
  return Merge128<0x88, 0xdd>(half, half);
}

// Sums of the first and the last 16 codes of rows 2i and 2i + 1 in pairs[i], for row r in lane r.
void SumCodes(const __m512i (&pairs)[4], __m512i* first, __m512i* last) {
  const __m512i one = _mm512_set1_epi8(1);
  __m512i sums[4], four[2];
  for (int i = 0; i < 4; ++i) sums[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), one, pairs[i]);
  for (int i = 0; i < 2; ++i) {
    four[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2 * i], sums[2 * i + 1]),
                               _mm512_unpackhi_epi32(sums[2 * i], sums[2 * i + 1]));
  }
  // [row even or odd][half][row / 2]
  const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(four[0], four[1]), _mm512_unpackhi_epi64(four[0], four[1]));
  const __m512i row = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 0, 8, 1, 9, 2, 10, 3, 11);
  *first = _mm512_permutexvar_epi32(row, all);
  *last = _mm512_permutexvar_epi32(_mm512_add_epi32(row, _mm512_set1_epi32(4)), all);
}

// Of the rows of `stand` what the largest element of a block has beyond its code. `rests`: of the first half, then of the last.
int64_t FindApart(const float* x, int64_t k, uint32_t mask, uint32_t stand, const float* most, const float* scales,
                  const int8_t* codes, int32_t block, float (*rests)[16], Apart* to) {
  int64_t count = 0;
  for (; stand != 0; stand &= stand - 1) {
    const int r = __builtin_ctz(stand);
    const float* from = x + r * k;
    const __m512 largest = _mm512_set1_ps(most[r]);
    const auto is = [&](int half) -> uint32_t {
      const auto part = static_cast<__mmask16>(mask >> 16 * half);
      return _mm512_mask_cmp_ps_mask(part, _mm512_abs_ps(_mm512_maskz_loadu_ps(part, from + 16 * half)), largest, _CMP_EQ_OQ);
    };
    const int place = __builtin_ctz(is(0) | is(1) << 16);
    const float rest = from[place] - scales[r] * static_cast<float>(codes[r * 32 + place]);
    rests[place / 16][r] = rest;
    int64_t at = 0;
    while (at < count && to[at].place != place) ++at;
    if (at == count) to[count++] = {block, place, {}};
    to[at].rests[r] = rest;
  }
  return count;
}

void Quantize(const float* x, int64_t k, int64_t blocks, const BytesForm& form, BytesX* to) {
  const int64_t rows = to->rows;
  const auto present = static_cast<__mmask16>((1U << rows) - 1U);
  // 16 bytes of each of two rows become 32 of the one and 32 of the other.
  const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512 full = _mm512_set1_ps(127.0f), zero = _mm512_setzero_ps();
  uint8_t* block = to->data;
  to->apart_count = 0;
  for (int64_t b = 0; b < blocks; ++b, block += BytesX::BlockBytes(rows, form)) {
    const int64_t left = k - b * 32;
    const uint32_t mask = left >= 32 ? 0xffffffffU : (1U << left) - 1U;
    __m512 v[8][2];
    Two most[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) {
      const uint32_t wanted = r < rows ? mask : 0;
      const float* from = x + (r < rows ? r * k : 0) + b * 32;
      v[r][0] = _mm512_maskz_loadu_ps(static_cast<__mmask16>(wanted), from);
      v[r][1] = _mm512_maskz_loadu_ps(static_cast<__mmask16>(wanted >> 16), from + 16);
      const __m512 a0 = _mm512_abs_ps(v[r][0]), a1 = _mm512_abs_ps(v[r][1]);
      most[r] = {_mm512_max_ps(a0, a1), _mm512_min_ps(a0, a1)};
    }
    const Two largest = AcrossLanes(most);
    const __mmask16 stand =
        _mm512_mask_cmp_ps_mask(present, largest.first, _mm512_mul_ps(largest.next, _mm512_set1_ps(kStandsOut)), _CMP_GT_OQ);
    const __m512 max = _mm512_mask_mov_ps(largest.first, stand, largest.next), scale = _mm512_div_ps(max, full);
    alignas(64) float inverse[16], scales[16], rests[2][16] = {};
    _mm512_store_ps(inverse, _mm512_maskz_div_ps(_mm512_cmp_ps_mask(max, zero, _CMP_GT_OQ), full, max));
    _mm512_store_ps(scales, scale);
    __m512i pairs[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      // What stands out saturates.
      const auto words = [&](int r) {
        const __m512 by = _mm512_set1_ps(inverse[r]);
        return _mm512_packs_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(v[r][0], by)), _mm512_cvtps_epi32(_mm512_mul_ps(v[r][1], by)));
      };
      pairs[i] = _mm512_permutexvar_epi32(in_order, _mm512_packs_epi16(words(2 * i), words(2 * i + 1)));
      const int64_t here = rows - 2 * i;
      if (here > 0) _mm512_mask_storeu_epi32(block + i * 64, here == 1 ? 0x00ff : 0xffff, pairs[i]);
    }
    auto* scale_of = reinterpret_cast<float*>(block + rows * 32);
    _mm512_mask_storeu_ps(scale_of, present, scale);
    if (stand != 0) {
      alignas(64) float highest[16];
      _mm512_store_ps(highest, largest.first);
      to->apart_count += FindApart(x + b * 32, k, mask, stand, highest, scales, reinterpret_cast<const int8_t*>(block),
                                   static_cast<int32_t>(b), rests, to->apart + to->apart_count);
    }
    __m512i sums[2];
    SumCodes(pairs, &sums[0], &sums[1]);
    if (!form.halves) sums[0] = _mm512_add_epi32(sums[0], sums[1]);
    for (int half = 0; half < (form.halves ? 2 : 1); ++half) {
      float* of_half = scale_of + rows * (1 + half);
      if (form.has_min) {
        __m512 rest = _mm512_load_ps(rests[half]);
        if (!form.halves) rest = _mm512_add_ps(rest, _mm512_load_ps(rests[1]));
        _mm512_mask_storeu_ps(of_half, present, _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sums[half]), rest));
      } else {
        _mm512_mask_storeu_epi32(of_half, present, _mm512_mullo_epi32(sums[half], _mm512_set1_epi32(-form.zero)));
      }
    }
  }
}

template <Form kForm>
void UnpackCodes(const uint8_t* w, const Layout& layout, const BytesForm& form, int64_t blocks, int vector, uint8_t* to) {
  // What the form does not subtract from the codes is part of the minimum.
  const __m512 rest = _mm512_set1_ps(static_cast<float>(layout.zero - form.zero));
  CodeReader<kForm> codes(layout);
  Factors of_group(w, layout, blocks);
  for (int64_t b = 0; b < blocks; ++b, w += layout.block_bytes(), to += form.block_bytes()) {
    for (int j = 0; j < 4; ++j) {
      __m512i first, last;
      codes.Read(w, j, &first, &last);
      _mm512_storeu_si512(to + (2 * j + vector) * 64, first);
      _mm512_storeu_si512(to + (8 + 2 * j + vector) * 64, last);
    }
    of_group.Next(b, w);
    auto* factors = reinterpret_cast<float*>(to + 1024) + vector * 16;
    for (int half = 0; half < (form.halves ? 2 : 1); ++half, factors += 32) {
      const __m512 scale = of_group.Scale(half).v;
      _mm512_storeu_ps(factors, scale);
      if (form.has_min) _mm512_storeu_ps(factors + (form.halves ? 64 : 32), _mm512_fmadd_ps(rest, scale, of_group.Min(half).v));
    }
  }
}

void Unpack(const uint8_t* w, const Layout& layout, const BytesForm& form, int64_t blocks, int vector, uint8_t* to) {
  WithFormOf(layout, [&]<Form kForm>() { UnpackCodes<kForm>(w, layout, form, blocks, vector, to); });
}

template <int kRows>
struct Sums {
  __m512i v[kRows][2];
};

// Depth [first, first + kVectors * 4) of a block.
template <int kRows, int kVectors>
inline __attribute__((always_inline)) void Multiply(const uint8_t* w, const uint8_t* x, Sums<kRows>* sums) {
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) {
    const __m512i w0 = _mm512_loadu_si512(w + j * 128), w1 = _mm512_loadu_si512(w + j * 128 + 64);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      __builtin_memcpy(&four, x + r * 32 + j * 4, 4);
      const __m512i v = _mm512_set1_epi32(four);
      sums->v[r][0] = _mm512_dpbusd_epi32(sums->v[r][0], w0, v);
      sums->v[r][1] = _mm512_dpbusd_epi32(sums->v[r][1], w1, v);
    }
  }
}

template <int kRows, bool kHalves, bool kMin>
void Rows(const BytesTile& t) {
  constexpr int kParts = kHalves ? 2 : 1;
  constexpr int64_t kStep = kRows * (36 + kParts * 4);
  __m512 acc[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
  const int64_t step = t.form->block_bytes();
  const uint8_t *w = t.panel, *x = t.x->data;
  for (int64_t b = 0; b < t.blocks; ++b, w += step, x += kStep) {
    const auto* scales = reinterpret_cast<const float*>(x + kRows * 32);
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const float* shifts = scales + kRows * (1 + part);
      Sums<kRows> sums;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums.v[r][0] = kMin ? _mm512_setzero_si512() : _mm512_castps_si512(_mm512_set1_ps(shifts[r]));
        sums.v[r][1] = sums.v[r][0];
      }
      Multiply<kRows, 8 / kParts>(w + part * 512, x + part * 16, &sums);
      const float* factors = reinterpret_cast<const float*>(w + 1024) + part * 32;
      const float* minima = factors + kParts * 32;
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const __m512 scale = _mm512_loadu_ps(factors + v * 16);
        __m512 min;
        if constexpr (kMin) min = _mm512_loadu_ps(minima + v * 16);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          if constexpr (kMin) acc[r][v] = _mm512_fnmadd_ps(min, _mm512_set1_ps(shifts[r]), acc[r][v]);
          const __m512 by = _mm512_mul_ps(scale, _mm512_set1_ps(scales[r]));
          acc[r][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums.v[r][v]), by, acc[r][v]);
        }
      }
    }
  }
  const __m512i byte = _mm512_set1_epi32(255), zero = _mm512_set1_epi32(t.form->zero);
  for (const Apart *a = t.x->apart, *end = a + t.x->apart_count; a != end; ++a) {
    const auto place = static_cast<uint32_t>(a->place);
    const uint8_t *block = t.panel + a->block * step, *codes = block + place / 4 * 128;
    const float* factors = reinterpret_cast<const float*>(block + 1024) + (kHalves ? place / 16 * 32 : 0);
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(place % 4 * 8));
    __m512 element[2];
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const __m512i code = _mm512_and_si512(_mm512_srl_epi32(_mm512_loadu_si512(codes + v * 64), shift), byte);
      element[v] =
          _mm512_mul_ps(_mm512_cvtepi32_ps(kMin ? code : _mm512_sub_epi32(code, zero)), _mm512_loadu_ps(factors + v * 16));
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 rest = _mm512_set1_ps(a->rests[r]);
      acc[r][0] = _mm512_fmadd_ps(element[0], rest, acc[r][0]);
      acc[r][1] = _mm512_fmadd_ps(element[1], rest, acc[r][1]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    _mm512_storeu_ps(t.acc + r * 32, acc[r][0]);
    _mm512_storeu_ps(t.acc + r * 32 + 16, acc[r][1]);
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
                                         Rows<7, kHalves, kMin>};
  kByRows[t.x->rows](t);
}

void Tile(const BytesTile& t) {
  if (t.form->halves) return t.form->has_min ? ByRows<true, true>(t) : ByRows<true, false>(t);
  return t.form->has_min ? ByRows<false, true>(t) : ByRows<false, false>(t);
}

}  // namespace

extern const BytesInner kBytesAvx512Vnni = {7, Quantize, Unpack, Tile};

}  // namespace tenon::kernels::block_matmul
