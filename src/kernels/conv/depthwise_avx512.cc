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
#include "kernels/gemm/bf16_store_avx512.inl"
#include "kernels/conv/depthwise_load_avx512.inl"
#include "kernels/conv/depthwise.inl"
// clang-format on
}  // namespace

extern const DepthwiseKernels kDepthwiseAvx512 = {RunLine<DepthwiseLine>, RunLine<DepthwiseLineBf16>};

}  // namespace tenon::kernels::conv
