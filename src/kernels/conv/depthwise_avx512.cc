// Depthwise convolution for Avx512.
// GCC 12 takes the deliberately undefined operands inside its own AVX-512 header for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/conv/depthwise.h"

namespace tenon::kernels::conv {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_avx512.inl"
inline __m512 LoadC(const uint16_t* p, int64_t n, bool whole) {
  const __m256i raw =
      whole ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)) : _mm256_maskz_loadu_epi16(Vec::Mask(n < 16 ? n : 16), p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}
#include "kernels/conv/depthwise.inl"
// clang-format on
}  // namespace

extern const DepthwiseKernels kDepthwiseAvx512 = {RunLine<DepthwiseLine>, RunLine<DepthwiseLineBf16>};

}  // namespace tenon::kernels::conv
