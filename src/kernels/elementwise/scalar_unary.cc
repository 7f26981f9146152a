// Unary functions of the oracle, in double.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/elementwise/scalar.h"

namespace tenon::kernels::elementwise {
namespace {

double Sigmoid(double x) {
  if (x >= 0) return 1.0 / (1.0 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1.0 + e);
}

// max and min that keep a NaN, as NumPy's maximum and minimum do.
double MaxNan(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}
double MinNan(double a, double b) {
  return std::isnan(a) || a < b ? a : b;
}

// erfc keeps the lower tail, where 1 + erf would cancel.
double GeluErf(double x) {
  if (std::isinf(x)) return x > 0 ? x : -0.0;
  return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2);
}
double GeluTanh(double x) {
  if (std::isinf(x)) return x > 0 ? x : -0.0;
  return x * Sigmoid(2.0 * std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x));
}
double Swish(double x, double alpha) {
  const double s = Sigmoid(alpha * x);
  return s == 0.0 ? std::copysign(0.0, x) : x * s;
}
double Softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

double Real(const UnaryFn& fn, double x) {
  const double p0 = fn.p0;
  const double p1 = fn.p1;
  switch (fn.op) {
    case UnaryOp::kAbs: return std::fabs(x);
    case UnaryOp::kAcos: return std::acos(x);
    case UnaryOp::kAcosh: return std::acosh(x);
    case UnaryOp::kAsin: return std::asin(x);
    case UnaryOp::kAsinh: return std::asinh(x);
    case UnaryOp::kAtan: return std::atan(x);
    case UnaryOp::kAtanh: return std::atanh(x);
    case UnaryOp::kCeil: return std::ceil(x);
    case UnaryOp::kCelu: return x > 0 || std::isnan(x) ? x : p0 * std::expm1(x / p0);
    case UnaryOp::kClip: return MinNan(MaxNan(x, p0), p1);
    case UnaryOp::kCos: return std::cos(x);
    case UnaryOp::kCosh: return std::cosh(x);
    case UnaryOp::kElu: return x < 0 ? p0 * std::expm1(x) : x;
    case UnaryOp::kErf: return std::erf(x);
    case UnaryOp::kExp: return std::exp(x);
    case UnaryOp::kFloor: return std::floor(x);
    case UnaryOp::kGeluErf: return GeluErf(x);
    case UnaryOp::kGeluTanh: return GeluTanh(x);
    case UnaryOp::kHardSigmoid: return MaxNan(MinNan(p0 * x + p1, 1.0), 0.0);
    case UnaryOp::kHardSwish: return x * MaxNan(MinNan(x / 6.0 + 0.5, 1.0), 0.0);
    case UnaryOp::kLeakyRelu: return x < 0 ? p0 * x : x;
    case UnaryOp::kLog: return std::log(x);
    case UnaryOp::kMish: return x == -INFINITY ? -0.0 : x * std::tanh(Softplus(x));
    case UnaryOp::kNeg: return -x;
    case UnaryOp::kReciprocal: return 1.0 / x;
    case UnaryOp::kRelu: return MaxNan(x, 0.0);
    case UnaryOp::kRound: return std::nearbyint(x);
    case UnaryOp::kSelu: return p1 * (x > 0 || std::isnan(x) ? x : p0 * std::expm1(x));
    case UnaryOp::kShrink: return x < -p0 ? x + p1 : x > p0 ? x - p1 : std::isnan(x) ? x : 0.0;
    case UnaryOp::kSigmoid: return Sigmoid(x);
    case UnaryOp::kSign: return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
    case UnaryOp::kSin: return std::sin(x);
    case UnaryOp::kSinh: return std::sinh(x);
    case UnaryOp::kSoftplus: return Softplus(x);
    case UnaryOp::kSoftsign: return std::isinf(x) ? std::copysign(1.0, x) : x / (1.0 + std::fabs(x));
    case UnaryOp::kSqrt: return std::sqrt(x);
    case UnaryOp::kSwish: return Swish(x, p0);
    case UnaryOp::kTan: return std::tan(x);
    case UnaryOp::kTanh: return std::tanh(x);
    case UnaryOp::kThresholdedRelu: return x > p0 ? x : std::isnan(x) ? x : 0.0;
    default: CHECK(false); return 0;
  }
}

int64_t Signed(const UnaryFn& fn, int64_t x) {
  switch (fn.op) {
    case UnaryOp::kAbs: return x < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x;
    case UnaryOp::kBitwiseNot: return ~x;
    case UnaryOp::kNeg: return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
    case UnaryOp::kRelu: return std::max<int64_t>(x, 0);
    case UnaryOp::kSign: return x > 0 ? 1 : x < 0 ? -1 : 0;
    default: CHECK(false); return 0;
  }
}

uint64_t Unsigned(const UnaryFn& fn, uint64_t x) {
  switch (fn.op) {
    case UnaryOp::kAbs:
    case UnaryOp::kRelu: return x;
    case UnaryOp::kBitwiseNot: return ~x;
    case UnaryOp::kNot: return x == 0 ? 1 : 0;
    case UnaryOp::kSign: return x > 0 ? 1 : 0;
    default: CHECK(false); return 0;
  }
}

// Shrink of an integer: the bounds are real, the result goes towards zero.
void ShrinkIntegers(const UnaryFn& fn, bool is_signed, int64_t n, Word* w) {
  for (int64_t k = 0; k < n; ++k) {
    const double x = is_signed ? static_cast<double>(w[k].i) : static_cast<double>(w[k].u);
    const double y = x < -static_cast<double>(fn.p0) ? x + fn.p1 : x > fn.p0 ? x - fn.p1 : 0.0;
    w[k].f = y;
  }
  ConvertKind(Kind::kReal, is_signed ? DType::kI64 : DType::kU64, n, w);
}

}  // namespace

void ApplyUnary(const UnaryFn& fn, Kind kind, int64_t n, Word* w) {
  if (fn.op == UnaryOp::kIsNaN) {
    for (int64_t k = 0; k < n; ++k) w[k].u = std::isnan(w[k].f) ? 1 : 0;
  } else if (fn.op == UnaryOp::kIsInf) {
    for (int64_t k = 0; k < n; ++k) w[k].u = std::isinf(w[k].f) && (w[k].f < 0 ? fn.p0 : fn.p1) != 0 ? 1 : 0;
  } else if (kind == Kind::kReal) {
    for (int64_t k = 0; k < n; ++k) w[k].f = Real(fn, w[k].f);
  } else if (fn.op == UnaryOp::kShrink) {
    ShrinkIntegers(fn, kind == Kind::kSigned, n, w);
  } else if (kind == Kind::kSigned) {
    for (int64_t k = 0; k < n; ++k) w[k].i = Signed(fn, w[k].i);
  } else {
    for (int64_t k = 0; k < n; ++k) w[k].u = Unsigned(fn, w[k].u);
  }
}

bool Accepts(UnaryOp op, DType t) {
  const bool real = DTypeBits(t) >= 16 && IsFloat(t);
  const bool integer = IsInteger(t) && DTypeBits(t) >= 8;
  switch (op) {
    case UnaryOp::kAbs:
    case UnaryOp::kSign:
    case UnaryOp::kShrink: return real || integer;
    case UnaryOp::kNeg:
    case UnaryOp::kRelu: return real || (integer && IsSigned(t));
    case UnaryOp::kBitwiseNot: return integer;
    case UnaryOp::kNot: return t == DType::kBool;
    case UnaryOp::kIsInf:
    case UnaryOp::kIsNaN: return real || (IsFloat(t) && DTypeBits(t) == 8);
    case UnaryOp::kClip: return real || integer;
    default: return real;
  }
}

}  // namespace tenon::kernels::elementwise
