// Binary functions of the oracle: reals in double, integers in 64 bits (Store keeps the low ones, so they wrap around).
#include <cmath>

#include "kernels/elementwise/scalar.h"

namespace tenon::kernels::elementwise {
namespace {

double FloorMod(double a, double b) {
  if (std::isinf(b) && std::isfinite(a)) return a == 0 ? std::copysign(0.0, b) : (a < 0) == (b < 0) ? a : b;
  const double r = std::fmod(a, b);
  if (r == 0) return std::isnan(r) ? r : std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

double Gelu(UnaryOp op, double x) {
  Word w;
  w.f = x;
  ApplyUnary({op}, Kind::kReal, 1, &w);
  return w.f;
}

double Real(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSub: return a - b;
    case BinaryOp::kMul: return a * b;
    case BinaryOp::kDiv: return a / b;
    case BinaryOp::kMod: return FloorMod(a, b);
    case BinaryOp::kFmod: return std::fmod(a, b);
    case BinaryOp::kPow: return std::pow(a, b);
    case BinaryOp::kMax: return std::isnan(a) || a > b ? a : b;
    case BinaryOp::kMin: return std::isnan(a) || a < b ? a : b;
    case BinaryOp::kPRelu: return a < 0 ? a * b : a;
    case BinaryOp::kGeluErfAdd: return Gelu(UnaryOp::kGeluErf, a + b);
    case BinaryOp::kGeluTanhAdd: return Gelu(UnaryOp::kGeluTanh, a + b);
    default: CHECK(false); return 0;
  }
}

// Functions whose low bits do not depend on the sign.
uint64_t Common(BinaryOp op, int bits, uint64_t a, uint64_t b) {
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSub: return a - b;
    case BinaryOp::kMul: return a * b;
    case BinaryOp::kBitwiseAnd:
    case BinaryOp::kAnd: return a & b;
    case BinaryOp::kBitwiseOr:
    case BinaryOp::kOr: return a | b;
    case BinaryOp::kBitwiseXor:
    case BinaryOp::kXor: return a ^ b;
    case BinaryOp::kShiftLeft: return b >= static_cast<uint64_t>(bits) ? 0 : a << b;
    case BinaryOp::kShiftRight: return b >= static_cast<uint64_t>(bits) ? 0 : a >> b;
    default: CHECK(false); return 0;
  }
}

int64_t Signed(BinaryOp op, int bits, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::kDiv: return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
    case BinaryOp::kMod: {
      if (b == 0 || b == -1) return 0;
      const int64_t r = a % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case BinaryOp::kFmod: return b == 0 || b == -1 ? 0 : a % b;
    case BinaryOp::kMax: return a > b ? a : b;
    case BinaryOp::kMin: return a < b ? a : b;
    case BinaryOp::kPRelu: return a < 0 ? static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)) : a;
    case BinaryOp::kShiftRight:
      // Arithmetic (BitShift-28): the sign fills, and is all that is left of a shift by the width or more, or by less than 0.
      return a >> (b < 0 || b >= bits ? 63 : b);
    default: return static_cast<int64_t>(Common(op, bits, static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  }
}

uint64_t Unsigned(BinaryOp op, int bits, uint64_t a, uint64_t b) {
  switch (op) {
    case BinaryOp::kDiv: return b == 0 ? 0 : a / b;
    case BinaryOp::kMod:
    case BinaryOp::kFmod: return b == 0 ? 0 : a % b;
    case BinaryOp::kMax: return a > b ? a : b;
    case BinaryOp::kMin: return a < b ? a : b;
    case BinaryOp::kPRelu: return a;
    default: return Common(op, bits, a, b);
  }
}

template <typename T>
bool Compare(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kEqual: return a == b;
    case BinaryOp::kLess: return a < b;
    case BinaryOp::kLessOrEqual: return a <= b;
    case BinaryOp::kGreater: return a > b;
    default: return a >= b;
  }
}

uint64_t IntegerPow(uint64_t base, bool base_signed, uint64_t exponent, bool exponent_signed) {
  if (exponent_signed && static_cast<int64_t>(exponent) < 0) {
    if (base == 1) return 1;
    if (base_signed && base == ~uint64_t{0}) return (exponent & 1) != 0 ? base : 1;
    return 0;
  }
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}

}  // namespace

void ApplyBinary(BinaryOp op, Kind kind, int bits, int64_t n, const Word* a, const Word* b, Word* out, bool exponent_signed) {
  if (GivesBool(op)) {
    for (int64_t k = 0; k < n; ++k) {
      out[k].u = kind == Kind::kReal     ? Compare(op, a[k].f, b[k].f)
                 : kind == Kind::kSigned ? Compare(op, a[k].i, b[k].i)
                                         : Compare(op, a[k].u, b[k].u);
    }
  } else if (kind == Kind::kReal) {
    for (int64_t k = 0; k < n; ++k) out[k].f = Real(op, a[k].f, b[k].f);
  } else if (op == BinaryOp::kPow) {
    for (int64_t k = 0; k < n; ++k) out[k].u = IntegerPow(a[k].u, kind == Kind::kSigned, b[k].u, exponent_signed);
  } else if (kind == Kind::kSigned) {
    for (int64_t k = 0; k < n; ++k) out[k].i = Signed(op, bits, a[k].i, b[k].i);
  } else {
    for (int64_t k = 0; k < n; ++k) out[k].u = Unsigned(op, bits, a[k].u, b[k].u);
  }
}

bool Accepts(BinaryOp op, DType t) {
  const bool real = DTypeBits(t) >= 16 && IsFloat(t);
  const bool integer = IsInteger(t) && DTypeBits(t) >= 8;
  switch (op) {
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
    case BinaryOp::kXor: return t == DType::kBool;
    case BinaryOp::kBitwiseAnd:
    case BinaryOp::kBitwiseOr:
    case BinaryOp::kBitwiseXor:
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight: return integer;
    case BinaryOp::kGeluErfAdd:
    case BinaryOp::kGeluTanhAdd: return real;
    case BinaryOp::kEqual: return real || integer || t == DType::kBool || t == DType::kString;
    default: return real || integer;
  }
}

}  // namespace tenon::kernels::elementwise
