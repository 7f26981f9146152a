// The rows of integer products on the byte tiles of gemm/int8.h.
#ifndef TENON_KERNELS_QUANTIZE_INT8_H_
#define TENON_KERNELS_QUANTIZE_INT8_H_

#include "kernels/kernel.h"

namespace tenon::kernels::quantize {

/// Constant B of rank 2, one quantisation of A.
Refusal CanInt8MatMul(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeInt8MatMulOn(const Problem& problem, hw::IsaMask isa);
/// Constant weights, up to three spatial axes.
Refusal CanInt8Conv(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeInt8ConvOn(const Problem& problem, hw::IsaMask isa);

/// One channel in and out per group, weights with constant zero points.
Refusal CanInt8Depthwise(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeInt8DepthwiseOn(const Problem& problem, hw::IsaMask isa);

/// Rows name the instruction set that they use.
template <hw::IsaMask kIsa>
Result<std::unique_ptr<Kernel>> MakeInt8MatMul(const Problem& problem) {
  return MakeInt8MatMulOn(problem, kIsa);
}
template <hw::IsaMask kIsa>
Result<std::unique_ptr<Kernel>> MakeInt8Conv(const Problem& problem) {
  return MakeInt8ConvOn(problem, kIsa);
}

template <hw::IsaMask kIsa>
Result<std::unique_ptr<Kernel>> MakeInt8Depthwise(const Problem& problem) {
  return MakeInt8DepthwiseOn(problem, kIsa);
}

/// Smallest and largest of x and 0.
void MinMaxOf(const float* x, int64_t n, hw::IsaMask isa, float* low, float* high);

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_INT8_H_
