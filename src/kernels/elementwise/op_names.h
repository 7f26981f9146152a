// The scalar functions that elementwise operators compute. One enumerator per function: operators that differ by an attribute
// only (Gelu's two forms, BitShift's directions) have several. Light enough for ISA files.
#ifndef TENON_KERNELS_ELEMENTWISE_OP_NAMES_H_
#define TENON_KERNELS_ELEMENTWISE_OP_NAMES_H_

#include <cstdint>

namespace tenon::kernels::elementwise {

/// Functions of one element. p0, p1 are UnaryFn's parameters.
enum class UnaryOp : uint8_t {
  kAbs,
  kAcos,
  kAcosh,
  kAsin,
  kAsinh,
  kAtan,
  kAtanh,
  kBitwiseNot,
  kCeil,
  kCelu,  ///< max(0,x) + min(0, p0*(exp(x/p0)-1))
  kClip,  ///< min(p1, max(x, p0))
  kCos,
  kCosh,
  kElu,  ///< x < 0 ? p0*(exp(x)-1) : x
  kErf,
  kExp,
  kFloor,
  kGeluErf,      ///< x/2 * (1 + erf(x/sqrt(2)))
  kGeluTanh,     ///< x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715*x^3)))
  kHardSigmoid,  ///< max(0, min(1, p0*x + p1))
  kHardSwish,    ///< x * max(0, min(1, x/6 + 1/2))
  kIsInf,        ///< to bool; p0: count -inf, p1: count +inf
  kIsNaN,        ///< to bool
  kLeakyRelu,    ///< x < 0 ? p0*x : x
  kLog,
  kMish,  ///< x * tanh(log(1 + exp(x)))
  kNeg,
  kNot,
  kReciprocal,
  kRelu,
  kRound,   ///< ties to even
  kSelu,    ///< p1 * (x <= 0 ? p0*exp(x)-p0 : x)
  kShrink,  ///< x < -p0 ? x+p1 : x > p0 ? x-p1 : 0
  kSigmoid,
  kSign,
  kSin,
  kSinh,
  kSoftplus,  ///< log(1 + exp(x))
  kSoftsign,  ///< x / (1 + |x|)
  kSqrt,
  kSwish,  ///< x * sigmoid(p0*x)
  kTan,
  kTanh,
  kThresholdedRelu,  ///< x > p0 ? x : 0
  kCount
};

/// Functions of two elements a, b. Integers wrap around; division and modulo by zero give 0; INT_MIN / -1 wraps to INT_MIN.
enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,   ///< integers: towards zero
  kMod,   ///< a - floor(a/b)*b, sign of b
  kFmod,  ///< a - trunc(a/b)*b, sign of a
  kPow,   ///< integers: wraps; a negative exponent gives 1/a^|b| towards zero (0 for a == 0)
  kMax,
  kMin,    ///< NaN if either is NaN
  kPRelu,  ///< a < 0 ? a*b : a
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
  kShiftLeft,
  kShiftRight,  ///< arithmetic for signed types; shifts by the width or more, or by less than 0, leave the sign alone
  kAnd,
  kOr,
  kXor,  ///< bool
  kGeluErfAdd,
  kGeluTanhAdd,  ///< Gelu of a+b
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,  ///< to bool
  kCount
};

/// Whether the result is bool whatever the inputs are.
static constexpr bool GivesBool(BinaryOp op) {
  return op >= BinaryOp::kEqual;
}
static constexpr bool GivesBool(UnaryOp op) {
  return op == UnaryOp::kIsInf || op == UnaryOp::kIsNaN;
}

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_OP_NAMES_H_
