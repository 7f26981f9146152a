// The parsed form of an ElementwiseChain (chain.h describes its attributes).
#ifndef TENON_KERNELS_ELEMENTWISE_CHAIN_PROGRAM_H_
#define TENON_KERNELS_ELEMENTWISE_CHAIN_PROGRAM_H_

#include "kernels/elementwise/chain.h"
#include "kernels/elementwise/ops.h"
#include "tensor/attrs.h"

namespace tenon::kernels::elementwise {

struct ChainStep {
  enum class Kind : uint8_t {
    kUnary,        ///< unary(a; p0, p1)
    kBinary,       ///< binary(a, b)
    kConstSecond,  ///< binary(a, p0)
    kConstFirst,   ///< binary(p0, a)
    kMulAdd        ///< a * p0 + p1
  };
  Kind kind = Kind::kUnary;
  UnaryOp unary = UnaryOp::kCount;
  BinaryOp binary = BinaryOp::kCount;
  float fixed_p0 = 0;  ///< not 0: stands in for p0 (Silu is Swish with alpha 1)
  int args[kChainArgs] = {-1, -1};
  float p0 = 0;
  float p1 = 0;
};

struct ChainProgram {
  int inputs = 0;
  int count = 0;
  ChainStep steps[kMaxChainSteps];
};

static_assert(kMaxChainInputs + kMaxChainSteps <= 64);  // registers as bits of a word

/// kBadInput says which attribute is wrong and what is allowed.
Result<ChainProgram> ParseChain(const Attrs& attrs, int inputs);

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_CHAIN_PROGRAM_H_
