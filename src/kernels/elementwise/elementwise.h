// Elementwise operators: unary, binary and variadic arithmetic, comparisons and logic, Where, Cast, Identity and the fused
// ElementwiseChain (chain.h). Semantics are those of the newest ONNX opset; ops.h gives each formula.
#ifndef TENON_KERNELS_ELEMENTWISE_ELEMENTWISE_H_
#define TENON_KERNELS_ELEMENTWISE_ELEMENTWISE_H_

#include <memory>
#include <span>
#include <string_view>

#include "kernels/elementwise/broadcast.h"
#include "kernels/elementwise/ops.h"
#include "kernels/kernel.h"

namespace tenon::kernels::elementwise {

std::span<const OpKernels> Operators();

/// Shape rules by group; `op` is the operator's name.
Status InferUnary(std::string_view op, const ShapeArgs& args);
Status InferBinary(std::string_view op, const ShapeArgs& args);
Status InferVariadic(std::string_view op, const ShapeArgs& args);
Status InferClip(const ShapeArgs& args);
Status InferWhere(const ShapeArgs& args);
Status InferIdentity(const ShapeArgs& args);
Status InferCast(const ShapeArgs& args);
Status InferCastLike(const ShapeArgs& args);
Status InferChain(const ShapeArgs& args);

using KernelPtr = Result<std::unique_ptr<Kernel>>;

KernelPtr MakeUnaryReference(const Problem& problem);
KernelPtr MakeBinaryReference(const Problem& problem);
KernelPtr MakeVariadicReference(const Problem& problem);
KernelPtr MakeClipReference(const Problem& problem);
KernelPtr MakeWhere(const Problem& problem);
KernelPtr MakeIdentity(const Problem& problem);
KernelPtr MakeCastReference(const Problem& problem);
KernelPtr MakeChainReference(const Problem& problem);

// Fast rows.
Refusal CanUnaryFast(const Problem& problem);
Refusal CanClipFast(const Problem& problem);
Refusal CanBinaryFast(const Problem& problem);
Refusal CanVariadicFast(const Problem& problem);
Refusal CanBinaryInt(const Problem& problem);
Refusal CanCastFast(const Problem& problem);
Refusal CanCastPlain(const Problem& problem);
Refusal CanUnaryInt(const Problem& problem);
Refusal CanWhere(const Problem& problem);
KernelPtr MakeUnaryAvx2(const Problem& problem);
KernelPtr MakeUnaryAvx512(const Problem& problem);
KernelPtr MakeClipAvx2(const Problem& problem);
KernelPtr MakeClipAvx512(const Problem& problem);
KernelPtr MakeBinaryAvx2(const Problem& problem);
KernelPtr MakeBinaryAvx512(const Problem& problem);
KernelPtr MakeVariadicAvx2(const Problem& problem);
KernelPtr MakeVariadicAvx512(const Problem& problem);
KernelPtr MakeUnaryPortable(const Problem& problem);
KernelPtr MakeUnaryAvx2Typed(const Problem& problem);
KernelPtr MakeUnaryAvx512Typed(const Problem& problem);
KernelPtr MakeBinaryPortable(const Problem& problem);
KernelPtr MakeBinaryAvx2Typed(const Problem& problem);
KernelPtr MakeBinaryAvx512Typed(const Problem& problem);
KernelPtr MakeWherePortable(const Problem& problem);
KernelPtr MakeWhereAvx2Typed(const Problem& problem);
KernelPtr MakeWhereAvx512Typed(const Problem& problem);
KernelPtr MakeCastPortable(const Problem& problem);
KernelPtr MakeCastAvx2(const Problem& problem);
KernelPtr MakeCastAvx512(const Problem& problem);
KernelPtr MakeChainAvx2(const Problem& problem);
KernelPtr MakeChainAvx512(const Problem& problem);

/// Makes sure that output 0 has memory for `shape` (Run's contract); nullptr when it has no elements.
Result<void*> OutputData(const RunArgs& args, const Shape& shape);

/// Elements that one thread should at least get: below this a second thread costs more than it brings.
inline constexpr int64_t kGrain = 16384;

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_ELEMENTWISE_H_
