#include "kernels/conv/depthwise_lines.h"

#include <algorithm>

namespace tenon::kernels::conv {
namespace {

constexpr int64_t kLineWork = 32 * 1024;      // multiply-adds of a line worth another thread
constexpr int64_t kWindowFloats = 6 * 1024;   // of input under a window, half of a small L1 cache

}  // namespace

const DepthwiseKernels& SelectDepthwise(hw::IsaMask isa) {
#if defined(__x86_64__)
  if (hw::Covers(isa, hw::kAvx512 | hw::kAvx512Bf16)) return kDepthwiseAvx512Bf16;
  if (hw::Covers(isa, hw::kAvx512)) return kDepthwiseAvx512;
  if (hw::Covers(isa, hw::kAvx2)) return kDepthwiseAvx2;
#endif
  (void)isa;
  return kDepthwisePortable;
}

DepthwiseCut::DepthwiseCut(const Plane& p, int64_t lanes) {
  const int64_t width = std::min<int64_t>(p.in[2], 32);
  channels = std::max<int64_t>(kWindowFloats / (width * p.kernel[1]), 64) / lanes * lanes;
  channels = std::min(channels, p.c);
  columns = std::max<int64_t>(8, kWindowFloats / (channels * p.kernel[1]) / p.stride[2] / 8 * 8);
  line_grain = std::max<int64_t>(1, kLineWork / std::max<int64_t>(1, p.out[2] * p.c * p.taps()));
}

}  // namespace tenon::kernels::conv
