// Depthwise convolution for any machine.
#include "kernels/conv/depthwise.h"

namespace tenon::kernels::conv {
namespace {
#include "kernels/gemm/vec_portable.inl"
// Order matters: the second builds on the first.
#include "kernels/conv/depthwise.inl"
}  // namespace

void DepthwisePortable(const DepthwiseLine& line) { Line(line); }

}  // namespace tenon::kernels::conv
