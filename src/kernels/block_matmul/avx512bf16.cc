// Unpacking of weights in blocks to panels of bf16, for AVX-512 with its conversions to bf16; the rest is that of VNNI.
#include <immintrin.h>

#include "kernels/block_matmul/packed.h"

namespace tenon::kernels::block_matmul {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/v16/avx512.inl"
#include "kernels/block_matmul/factors.inl"
#include "kernels/block_matmul/forms.inl"
#include "kernels/block_matmul/codes_avx512.inl"
// clang-format on

// Two rows of depth as pairs: [column][2].
void StorePair(__m512 even, __m512 odd, __m512i order, uint16_t* to) {
  const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, halves));
}

__m512i Order() {
  alignas(64) uint16_t order[32];
  for (uint16_t i = 0; i < 32; ++i) order[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
  return _mm512_load_si512(order);
}

// Four rows of depth from [column][4] bytes.
void Four(__m512i codes, __m512 scale, __m512 shift, __m512i order, uint16_t* to) {
  const __m512i byte = _mm512_set1_epi32(255);
  const __m512 f0 = _mm512_cvtepi32_ps(_mm512_and_si512(codes, byte));
  const __m512 f1 = _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(codes, 8), byte));
  const __m512 f2 = _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(codes, 16), byte));
  const __m512 f3 = _mm512_cvtepi32_ps(_mm512_srli_epi32(codes, 24));
  StorePair(_mm512_fmadd_ps(f0, scale, shift), _mm512_fmadd_ps(f1, scale, shift), order, to);
  StorePair(_mm512_fmadd_ps(f2, scale, shift), _mm512_fmadd_ps(f3, scale, shift), order, to + 32);
}

void UnpackFloats(const uint8_t* w, Codes codes, int64_t blocks, uint16_t* to) {
  const __m512i order = Order();
  const auto at = [&](int64_t d) {
    if (codes == Codes::kF32) return _mm512_loadu_ps(reinterpret_cast<const float*>(w) + d * 16);
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w) + d));
  };
  for (int64_t b = 0; b < blocks; ++b, to += 1024) {
    for (int64_t p = 0; p < 16; ++p) StorePair(at(b * 32 + 2 * p), at(b * 32 + 2 * p + 1), order, to + p * 32);
  }
}

template <Form kForm>
void UnpackCodes(const uint8_t* w, const Layout& layout, int64_t blocks, uint16_t* to) {
  const __m512i order = Order();
  const __m512 zero = _mm512_set1_ps(-static_cast<float>(layout.zero));
  CodeReader<kForm> codes(layout);
  Factors factors(w, layout, blocks);
  for (int64_t b = 0; b < blocks; ++b, w += layout.block_bytes(), to += 1024) {
    factors.Next(b, w);
    __m512 scale[2], shift[2];
    for (int half = 0; half < 2; ++half) {
      scale[half] = factors.Scale(half).v;
      shift[half] = _mm512_fmsub_ps(zero, scale[half], factors.Min(half).v);
    }
    for (int j = 0; j < 4; ++j) {
      __m512i first, last;
      codes.Read(w, j, &first, &last);
      Four(first, scale[0], shift[0], order, to + j * 64);
      Four(last, scale[1], shift[1], order, to + 256 + j * 64);
    }
  }
}

void Unpack(const uint8_t* w, const Layout& layout, int64_t blocks, uint16_t* to) {
  if (layout.is_float()) return UnpackFloats(w, layout.codes, blocks, to);
  WithFormOf(layout, [&]<Form kForm>() { UnpackCodes<kForm>(w, layout, blocks, to); });
}

}  // namespace

extern const Inner kAvx512Bf16 = {"avx512bf16", QuantizeAvx512, DotAvx512Vnni, Unpack, FinishAvx512};

}  // namespace tenon::kernels::block_matmul
