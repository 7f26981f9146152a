// f16 and bf16 as plain 16-bit storage types with exact conversions (IEEE 754 binary16; bfloat16 = upper half of binary32).
#ifndef TENON_BASE_HALF_H_
#define TENON_BASE_HALF_H_

#include <bit>
#include <cstdint>

namespace tenon {

/// Round-to-nearest-even, NaN kept quiet, overflow to infinity.
constexpr uint16_t F32ToF16Bits(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (x >> 16) & 0x8000u;
  const uint32_t mag = x & 0x7fffffffu;
  if (mag >= 0x7f800000u) {
    return static_cast<uint16_t>(sign | (mag > 0x7f800000u ? 0x7e00u | ((mag >> 13) & 0x1ffu) : 0x7c00u));
  }
  if (mag >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (mag < 0x38800000u) {  // subnormal or zero in f16
    if (mag < 0x33000000u) return static_cast<uint16_t>(sign);
    const uint32_t shift = 126u - (mag >> 23);
    const uint32_t m = (mag & 0x7fffffu) | 0x800000u;
    const uint32_t half = 1u << (shift - 1);
    uint32_t q = m >> shift;
    const uint32_t rest = m & ((1u << shift) - 1);
    if (rest > half || (rest == half && (q & 1))) ++q;
    return static_cast<uint16_t>(sign | q);
  }
  const uint32_t rounded = mag + 0xfffu + ((mag >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

constexpr float F16BitsToF32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  uint32_t exp = (h >> 10) & 0x1fu;
  uint32_t man = h & 0x3ffu;
  if (exp == 31) return std::bit_cast<float>(sign | 0x7f800000u | (man << 13));
  if (exp == 0) {
    if (man == 0) return std::bit_cast<float>(sign);
    exp = 1;
    while ((man & 0x400u) == 0) {
      man <<= 1;
      --exp;
    }
    man &= 0x3ffu;
    // exp may have wrapped below zero; the unsigned sum below is still right.
  }
  return std::bit_cast<float>(sign | ((exp + 112u) << 23) | (man << 13));
}

constexpr uint16_t F32ToBF16Bits(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((x >> 16) | 0x40u);
  return static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1)) >> 16);
}

constexpr float BF16BitsToF32(uint16_t b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 16);
}

struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit constexpr Half(float f) : bits(F32ToF16Bits(f)) {}
  explicit constexpr operator float() const { return F16BitsToF32(bits); }
  friend constexpr bool operator==(Half, Half) = default;
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit constexpr BFloat16(float f) : bits(F32ToBF16Bits(f)) {}
  explicit constexpr operator float() const { return BF16BitsToF32(bits); }
  friend constexpr bool operator==(BFloat16, BFloat16) = default;
};

}  // namespace tenon

#endif  // TENON_BASE_HALF_H_
