// Depthwise convolution for any machine.
#include "base/half.h"
#include "kernels/conv/depthwise.h"

namespace tenon::kernels::conv {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_portable.inl"
inline Vec::T LoadC(const uint16_t* p, int64_t n, bool whole) {
  Vec::I bits{};
  for (int64_t i = 0; i < (whole ? Vec::kLanes : n); ++i) bits[i] = static_cast<int32_t>(static_cast<uint32_t>(p[i]) << 16);
  return reinterpret_cast<Vec::T>(bits);
}
inline void StoreBf(uint16_t* p, Vec::T v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = F32ToBF16Bits(v[i]);
}
#include "kernels/conv/depthwise.inl"
// clang-format on
}  // namespace

extern const DepthwiseKernels kDepthwisePortable = {RunLine<DepthwiseLine>, RunLine<DepthwiseLineBf16>};

}  // namespace tenon::kernels::conv
