// The inner functions of products with weights in blocks, for AVX-512 with VNNI: four multiplications of bytes a lane and
// instruction, twice, for the high and the low byte of x.
#include <immintrin.h>

#include "kernels/block_matmul/packed.h"

namespace tenon::kernels::block_matmul {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/v16/avx512.inl"
#include "kernels/v16/math.inl"
#include "kernels/block_matmul/factors.inl"
#include "kernels/block_matmul/generic.inl"
#include "kernels/block_matmul/forms.inl"
#include "kernels/block_matmul/codes_avx512.inl"
// clang-format on

__m512i Broadcast4(const int8_t* p) {
  int32_t v;
  __builtin_memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}

// Sums of a block's first and last 16 elements are chains of their own, of the high and of the low byte.
struct Chains {
  __m512i high[2], low[2];
};

template <Form kForm, bool kHalves, int kRows>
void DotOf(const Dot& t) {
  constexpr int kSums = kHalves ? 2 : 1;
  const Layout& layout = *t.layout;
  const int64_t step = layout.block_bytes();
  const bool has_min = layout.has_min;
  const int32_t zero = layout.zero;
  CodeReader<kForm> codes(layout);
  Factors factors(t.w, layout, t.blocks);
  __m512 acc[kRows];
  for (auto& a : acc) a = _mm512_setzero_ps();
  const uint8_t* w = t.w;
  for (int64_t block = 0; block < t.blocks; ++block, w += step) {
    for (int64_t line = 0; line < step; line += 64) _mm_prefetch(reinterpret_cast<const char*>(w) + kAhead + line, _MM_HINT_T0);
    Chains c[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      c[r].high[0] = c[r].high[1] = c[r].low[0] = c[r].low[1] = _mm512_setzero_si512();
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      __m512i a, b;
      codes.Read(w, j, &a, &b);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const int8_t *xh = t.x[r].high + block * 32 + j * 4, *xl = t.x[r].low + block * 32 + j * 4;
        c[r].high[0] = _mm512_dpbusd_epi32(c[r].high[0], a, Broadcast4(xh));
        c[r].low[0] = _mm512_dpbusd_epi32(c[r].low[0], a, Broadcast4(xl));
        c[r].high[1] = _mm512_dpbusd_epi32(c[r].high[1], b, Broadcast4(xh + 16));
        c[r].low[1] = _mm512_dpbusd_epi32(c[r].low[1], b, Broadcast4(xl + 16));
      }
    }
    factors.Next(block, w);
#pragma GCC unroll 2
    for (int i = 0; i < kSums; ++i) {
      const __m512 scale = factors.Scale(i).v, min = factors.Min(i).v;
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const int32_t* sums = t.x[r].sums + block * 2;
        const int32_t sum = kHalves ? sums[i] : sums[0] + sums[1];
        const __m512i high = kHalves ? c[r].high[i] : _mm512_add_epi32(c[r].high[0], c[r].high[1]);
        const __m512i low = kHalves ? c[r].low[i] : _mm512_add_epi32(c[r].low[0], c[r].low[1]);
        const __m512i exact = _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
        const __m512 dot = _mm512_cvtepi32_ps(_mm512_sub_epi32(exact, _mm512_set1_epi32(zero * sum)));
        const float x = t.x[r].scale[block];
        acc[r] = _mm512_fmadd_ps(_mm512_mul_ps(dot, scale), _mm512_set1_ps(x), acc[r]);
        if (has_min) acc[r] = _mm512_fnmadd_ps(min, _mm512_set1_ps(x * static_cast<float>(sum)), acc[r]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(t.y + r * t.y_step, acc[r]);
}

template <Form kForm, bool kHalves>
void DotRows(const Dot& t) {
  switch (t.rows) {
    case 1: DotOf<kForm, kHalves, 1>(t); break;
    case 2: DotOf<kForm, kHalves, 2>(t); break;
    case 3: DotOf<kForm, kHalves, 3>(t); break;
    default: DotOf<kForm, kHalves, 4>(t); break;
  }
}

__m512i Quantized(const float* x, __m512 inverse) {
  return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), inverse));
}

}  // namespace

void QuantizeAvx512(const float* x, int64_t k, int64_t blocks, const RowX& to) {
  float rest[32];
  for (int64_t b = 0; b < blocks; ++b) {
    const float* from = x + b * 32;
    if (b * 32 + 32 > k) {
      for (int64_t i = 0; i < 32; ++i) rest[i] = b * 32 + i < k ? x[b * 32 + i] : 0.0f;
      from = rest;
    }
    const __m512 x0 = _mm512_loadu_ps(from), x1 = _mm512_loadu_ps(from + 16);
    _mm512_storeu_ps(const_cast<float*>(to.x) + b * 32, x0);
    _mm512_storeu_ps(const_cast<float*>(to.x) + b * 32 + 16, x1);
    const float max = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(x0), _mm512_abs_ps(x1)));
    const __m512 inverse = _mm512_set1_ps(max > 0 ? 32512.0f / max : 0.0f);
    const_cast<float*>(to.scale)[b] = max / 32512.0f;
    for (int half = 0; half < 2; ++half) {
      const __m512i q = Quantized(from + half * 16, inverse);
      const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
      const __m512i low = _mm512_sub_epi32(q, _mm512_slli_epi32(high, 8));
      const int64_t at = b * 32 + half * 16;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(const_cast<int8_t*>(to.high) + at), _mm512_cvtepi32_epi8(high));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(const_cast<int8_t*>(to.low) + at), _mm512_cvtepi32_epi8(low));
      const_cast<int32_t*>(to.sums)[b * 2 + half] = _mm512_reduce_add_epi32(q);
    }
  }
}

void DotAvx512Vnni(const Dot& t) {
  const Layout& layout = *t.layout;
  if (layout.is_float()) return DotAnyFloats(t);
  WithFormOf(layout, [&]<Form kForm>() { layout.halves ? DotRows<kForm, true>(t) : DotRows<kForm, false>(t); });
}

void FinishAvx512(const FinishTask& t) {
  Finish(t);
}

extern const Inner kAvx512Vnni = {"avx512vnni", QuantizeAvx512, DotAvx512Vnni, UnpackAvx2, FinishAvx512};

}  // namespace tenon::kernels::block_matmul
