// Depthwise convolution for any machine.
#include "kernels/conv/depthwise.h"

namespace tenon::kernels::conv {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_portable.inl"
#include "kernels/conv/depthwise.inl"
// clang-format on
}  // namespace

void DepthwisePortable(const DepthwiseLine& line) {
  Line(line);
}

}  // namespace tenon::kernels::conv
