// Depthwise convolution for Avx2.
#include <immintrin.h>

#include "kernels/conv/depthwise.h"

namespace tenon::kernels::conv {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_avx2.inl"
#include "kernels/gemm/bf16_store_avx2.inl"
inline __m256 LoadC(const uint16_t* p, int64_t n, bool whole) {
  alignas(16) uint16_t all[8] = {};
  if (whole) {
    __builtin_memcpy(all, p, sizeof all);
  } else {
    for (int64_t i = 0; i < n; ++i) all[i] = p[i];
  }
  const __m128i raw = _mm_load_si128(reinterpret_cast<const __m128i*>(all));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}
#include "kernels/conv/depthwise.inl"
// clang-format on
}  // namespace

extern const DepthwiseKernels kDepthwiseAvx2 = {RunLine<DepthwiseLine>, RunLine<DepthwiseLineBf16>};

}  // namespace tenon::kernels::conv
