// Depthwise convolution for Avx2.
#include <immintrin.h>

#include "kernels/conv/depthwise.h"

namespace tenon::kernels::conv {
namespace {
#include "kernels/gemm/vec_avx2.inl"
// Order matters: the second builds on the first.
#include "kernels/conv/depthwise.inl"
}  // namespace

void DepthwiseAvx2(const DepthwiseLine& line) { Line(line); }

}  // namespace tenon::kernels::conv
