// ElementwiseChain: a program of elementwise functions over f32 registers that runs in one pass over memory.
//
// Operator "ElementwiseChain": inputs x0 .. x(k-1) (1 <= k <= kMaxChainInputs, all float32, multidirectional broadcast with each
// other); output y (float32), of the broadcast shape of ALL inputs. Attributes:
//   ops     strings, one per step (1 to kMaxChainSteps): an operator name from the list below
//   args    ints, 2 per step (kChainArgs): registers read by the step; the second is -1 for a step of one operand.
//           Register r < k is input r; register k + j is the result of step j. A step reads inputs and earlier steps only.
//   params  floats, 2 per step (kChainParams): constants of the step, 0 where it has none
// y is the result of the last step. Every step's result must be read by a later step or be the last one; every input must be
// read. In ONNX terms step j is  op(register args[2j], register args[2j+1])  with attributes  params[2j], params[2j+1].
//
// Steps of two operands (params 0, 0):
//   Add Sub Mul Div Pow Max Min PRelu(x, slope) Mod(fmod=0, as in ONNX: a - floor(a/b)*b)
// Steps of one operand, params in parentheses (p0, p1):
//   Abs Ceil Cos Erf Exp Floor Log Mish Neg Reciprocal Relu Round HardSwish Sigmoid Sign Silu Sin Softplus Softsign Sqrt Tan Tanh
//   Gelu            exact form          (0, 0)         GeluTanh        tanh form (Gelu approximate="tanh", FastGelu)  (0, 0)
//   Celu            (alpha, 0)          Elu            (alpha, 0)      LeakyRelu  (alpha, 0)   ThresholdedRelu (alpha, 0)
//   Selu            (alpha, gamma)      HardSigmoid    (alpha, beta)   Shrink     (lambd, bias)
//   Swish           (alpha, 0)          QuickGelu      (alpha, 0)
//   Clip            (min, max); a missing bound is -infinity or +infinity
//   Acos Acosh Asin Asinh Atan Atanh Cosh Sinh
// Steps of one operand with a constant, which save a scalar input:
//   AddConst  x + p0        SubFromConst  p0 - x        MulConst  x * p0        DivConst   x / p0       DivFromConst  p0 / x
//   PowConst  x ^ p0        MaxConst      max(x, p0)    MinConst  min(x, p0)    MulAddConst  x * p0 + p1  (two roundings)
#ifndef TENON_KERNELS_ELEMENTWISE_CHAIN_H_
#define TENON_KERNELS_ELEMENTWISE_CHAIN_H_

#include <string_view>

namespace tenon::kernels::elementwise {

inline constexpr int kMaxChainInputs = 12;
inline constexpr int kMaxChainSteps = 32;
inline constexpr int kChainArgs = 2;
inline constexpr int kChainParams = 2;

/// Number of operands (1 or 2) of a chain step, 0 when a chain cannot hold `step`. Constant forms count 1.
int ChainArity(std::string_view step);

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_CHAIN_H_
