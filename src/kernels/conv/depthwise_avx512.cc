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
#include "kernels/conv/depthwise.inl"
// clang-format on
}  // namespace

void DepthwiseAvx512(const DepthwiseLine& line) {
  Line(line);
}

}  // namespace tenon::kernels::conv
