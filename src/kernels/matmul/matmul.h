// Matrix products.
//
//   MatMul       Y[..., m, n] = sum_k A[..., m, k] * B[..., k, n]; numpy.matmul semantics: batch axes broadcast, a 1-D operand
//                stands for a row (A) or a column (B) whose axis is dropped from Y.
//   Gemm         Y = alpha * op(A) * op(B) + beta * C; A, B of rank 2, C broadcasts to [m, n]; attrs transA transB alpha beta.
//   FusedMatMul  Y = act(alpha * op(A) * op(B) + bias + residual); A, B of rank >= 2, batch axes broadcast; attrs transA transB
//                (swap the last two axes), alpha, and those of gemm/activation.h. Inputs: A, B, bias? [n], residual? (Y's shape).
//
// Integers wrap as two's complement; f16 and bf16 are summed in f32 at least and rounded once.
//
// Types are equal, except beside a bf16 B: then A, C or bias, and residual are each bf16 or f32, an f32 A is rounded to bf16 as
// it is read, and the attribute output_dtype (a DType number, bf16 or f32; absent: the type of A) says what Y is.
#ifndef TENON_KERNELS_MATMUL_MATMUL_H_
#define TENON_KERNELS_MATMUL_MATMUL_H_

#include "kernels/gemm/activation.h"
#include "kernels/kernel.h"

namespace tenon::kernels::matmul {

std::span<const OpKernels> Operators();

struct Params {
  bool trans_a = false;
  bool trans_b = false;
  float alpha = 1;
  float beta = 1;  ///< Gemm only
  bool is_gemm = false;  ///< input 2 is C with broadcasting and beta; otherwise bias [n] and residual
  gemm::Activation activation;
};

/// For any of the three operators. kBadInput for attributes out of range.
Result<Params> ParseParams(std::string_view op, const Attrs& attrs);

/// One product with its shapes resolved: `batch` products of [m, k] x [k, n].
struct Geometry {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  Shape batch_dims;  ///< broadcast batch axes; `batch` is their product
  Shape a_batch, b_batch;  ///< the operands' batch axes, left-padded with 1 to the same rank
  Shape y;  ///< shape of the result
};

/// kBadInput when inner extents differ or batch axes do not broadcast.
Result<Geometry> Resolve(const Params& params, const Shape& a, const Shape& b);

/// Index of the operand's matrix for linear batch index `i` of `batch_dims`.
int64_t OperandBatch(const Shape& batch_dims, const Shape& operand_batch, int64_t i);

Status InferMatMul(const ShapeArgs& args);
Status InferGemm(const ShapeArgs& args);
Status InferFusedMatMul(const ShapeArgs& args);

Refusal CanF32(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeAvx512(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakePortable(const Problem& problem);

/// bf16 B, all else bf16 or f32.
Refusal CanBf16(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Amx(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Avx512Bf16(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Avx512(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Avx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Portable(const Problem& problem);

Refusal CanReference(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem);

}  // namespace tenon::kernels::matmul

#endif  // TENON_KERNELS_MATMUL_MATMUL_H_
