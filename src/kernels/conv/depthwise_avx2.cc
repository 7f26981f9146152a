// Depthwise convolution for Avx2.
#include <immintrin.h>

#include "kernels/conv/depthwise.h"

namespace tenon::kernels::conv {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_avx2.inl"
#include "kernels/conv/depthwise.inl"
// clang-format on
}  // namespace

void DepthwiseAvx2(const DepthwiseLine& line) {
  Line(line);
}

}  // namespace tenon::kernels::conv
