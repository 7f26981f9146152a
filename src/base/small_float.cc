#include "base/small_float.h"

#include <bit>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

// Geometry of a format with sign, exponent and mantissa.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint8_t max_finite;  ///< pattern of the largest finite value, without sign
  uint8_t infinity;    ///< pattern of infinity, 0 when there is none
  uint8_t nan;         ///< pattern of NaN, 0 when there is none
  bool unsigned_zero;  ///< "uz": one zero, and NaN sits at the pattern of -0
};

constexpr Format FormatOf(DType t) {
  switch (t) {
    case DType::kF8E4M3FN: return {4, 3, 7, 0x7e, 0, 0x7f, false};
    case DType::kF8E4M3FNUZ: return {4, 3, 8, 0x7f, 0, 0x80, true};
    case DType::kF8E5M2: return {5, 2, 15, 0x7b, 0x7c, 0x7e, false};
    case DType::kF8E5M2FNUZ: return {5, 2, 16, 0x7f, 0, 0x80, true};
    default: return {2, 1, 1, 0x07, 0, 0, false};  // float4_e2m1fn
  }
}

uint8_t EncodeE8M0(float value, bool saturate, E8M0Round round) {
  constexpr uint8_t kNan = 0xff;
  constexpr uint8_t kMax = 0xfe;
  const uint32_t x = std::bit_cast<uint32_t>(value) & 0x7fffffffu;
  if (x > 0x7f800000u) return kNan;
  if (x == 0x7f800000u) return saturate ? kMax : kNan;
  if (x == 0) return saturate ? uint8_t{0} : kNan;
  uint32_t e = x >> 23;
  const uint32_t m = x & 0x7fffffu;
  if (e == 0) {
    // Subnormal: 2^-127 is mantissa 0x400000; below it only rounding up or saturation reaches a pattern.
    const bool up = (round == E8M0Round::kUp && m > 0x400000u) || (round == E8M0Round::kNearest && m >= 0x600000u);
    if (m < 0x400000u && !saturate && round != E8M0Round::kUp) return kNan;
    return up ? uint8_t{1} : uint8_t{0};
  }
  const bool up = (round == E8M0Round::kUp && m != 0) || (round == E8M0Round::kNearest && m >= 0x400000u);
  if (up) ++e;
  if (e > kMax) return saturate ? kMax : kNan;
  return static_cast<uint8_t>(e);
}

}  // namespace

float SmallFloatToF32(DType t, uint8_t bits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (t == DType::kF8E8M0) return bits == 0xff ? kNan : std::ldexp(1.0f, static_cast<int>(bits) - 127);
  const Format f = FormatOf(t);
  const int sign_shift = f.exponent_bits + f.mantissa_bits;
  const uint8_t mag = static_cast<uint8_t>(bits & ((1u << sign_shift) - 1));
  const bool negative = ((bits >> sign_shift) & 1) != 0;
  if (f.unsigned_zero ? bits == f.nan : (mag > f.max_finite && mag != f.infinity)) return negative ? -kNan : kNan;
  if (f.infinity != 0 && mag == f.infinity) {
    return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  const int e = mag >> f.mantissa_bits;
  const int m = mag & ((1 << f.mantissa_bits) - 1);
  const float v = e == 0 ? std::ldexp(static_cast<float>(m), 1 - f.bias - f.mantissa_bits)
                         : std::ldexp(static_cast<float>(m + (1 << f.mantissa_bits)), e - f.bias - f.mantissa_bits);
  return negative ? -v : v;
}

uint8_t F32ToSmallFloat(DType t, float value, bool saturate, E8M0Round round) {
  if (t == DType::kF8E8M0) return EncodeE8M0(value, saturate, round);
  const Format f = FormatOf(t);
  const bool negative = std::signbit(value);
  const auto sign = static_cast<uint8_t>(negative ? 1u << (f.exponent_bits + f.mantissa_bits) : 0u);
  if (std::isnan(value)) {
    if (f.nan == 0) return static_cast<uint8_t>(1u << (f.exponent_bits + f.mantissa_bits));
    return f.unsigned_zero ? f.nan : static_cast<uint8_t>(sign | f.nan);
  }
  const double a = std::fabs(static_cast<double>(value));
  const bool never_overflows = f.nan == 0;
  const auto overflow = [&]() -> uint8_t {
    if (saturate || never_overflows) return static_cast<uint8_t>(sign | f.max_finite);
    if (f.infinity != 0) return static_cast<uint8_t>(sign | f.infinity);
    return f.unsigned_zero ? f.nan : static_cast<uint8_t>(sign | f.nan);
  };
  if (std::isinf(a)) return overflow();
  // Round at the place of the last mantissa bit; std::nearbyint rounds ties to even.
  int exponent = 0;
  std::frexp(a, &exponent);
  const int lowest = 1 - f.bias;
  const int e = a == 0 || exponent - 1 < lowest ? lowest : exponent - 1;
  const double steps = std::nearbyint(std::ldexp(a, f.mantissa_bits - e));
  // A carry out of the mantissa moves into the exponent by itself in this sum.
  const double pattern = steps + std::ldexp(static_cast<double>(e - lowest), f.mantissa_bits);
  if (pattern > f.max_finite) return overflow();
  const auto mag = static_cast<uint8_t>(pattern);
  if (mag == 0 && f.unsigned_zero) return 0;
  return static_cast<uint8_t>(sign | mag);
}

}  // namespace tenon
