// The type rule that the matrix products and convolutions share.
#ifndef TENON_KERNELS_GEMM_RESULT_TYPE_H_
#define TENON_KERNELS_GEMM_RESULT_TYPE_H_

#include "kernels/kernel.h"

namespace tenon::kernels::gemm {

/// Type of the result of inputs x, weights, addends... All types are equal, except beside bf16 weights: then all others are bf16
/// or f32 each, and the attribute output_dtype says what the result is (absent: the type of x). kBadInput for other mixes.
Result<DType> ResultType(const ShapeArgs& args);

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_RESULT_TYPE_H_
