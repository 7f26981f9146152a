#include "kernels/elementwise/convert.h"

#include <cmath>
#include <limits>

#include "base/small_float.h"

namespace tenon::kernels::elementwise {
namespace {

template <typename T>
void LoadPlain(const void* data, int64_t offset, int64_t stride, int64_t n, Word* out) {
  const T* p = static_cast<const T*>(data) + offset;
  for (int64_t k = 0; k < n; ++k) {
    const T v = p[k * stride];
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      out[k].f = static_cast<float>(v);
    } else if constexpr (std::is_floating_point_v<T>) {
      out[k].f = v;
    } else if constexpr (std::is_signed_v<T>) {
      out[k].i = v;
    } else {
      out[k].u = v;
    }
  }
}

template <typename T>
void StorePlain(void* data, int64_t offset, int64_t n, const Word* in) {
  T* p = static_cast<T*>(data) + offset;
  for (int64_t k = 0; k < n; ++k) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      p[k] = T(static_cast<float>(in[k].f));
    } else if constexpr (std::is_floating_point_v<T>) {
      p[k] = static_cast<T>(in[k].f);
    } else if constexpr (std::is_same_v<T, bool>) {
      p[k] = in[k].u != 0;
    } else {
      p[k] = static_cast<T>(in[k].u);
    }
  }
}

uint8_t RawBits(const uint8_t* p, int bits, int64_t index) {
  if (bits == 8) return p[index];
  const int per_byte = 8 / bits;
  const auto shift = static_cast<int>(index % per_byte) * bits;
  return static_cast<uint8_t>((p[index / per_byte] >> shift) & ((1 << bits) - 1));
}

void SetRawBits(uint8_t* p, int bits, int64_t index, uint8_t value) {
  if (bits == 8) {
    p[index] = value;
    return;
  }
  const int per_byte = 8 / bits;
  const auto shift = static_cast<int>(index % per_byte) * bits;
  const auto mask = static_cast<uint8_t>(((1 << bits) - 1) << shift);
  uint8_t& byte = p[index / per_byte];
  byte = static_cast<uint8_t>((byte & ~mask) | ((value << shift) & mask));
}

// Types of at most 8 bits that are no C++ type.
void LoadSmall(DType t, const void* data, int64_t offset, int64_t stride, int64_t n, Word* out) {
  const int bits = DTypeBits(t);
  const auto* p = static_cast<const uint8_t*>(data);
  for (int64_t k = 0; k < n; ++k) {
    const uint8_t raw = RawBits(p, bits, offset + k * stride);
    switch (t) {
      case DType::kU4:
      case DType::kU2: out[k].u = raw; break;
      case DType::kI4: out[k].i = static_cast<int64_t>(raw ^ 8) - 8; break;
      case DType::kI2: out[k].i = static_cast<int64_t>(raw ^ 2) - 2; break;
      default: out[k].f = SmallFloatToF32(t, raw); break;
    }
  }
}

}  // namespace

Kind KindOf(DType t) {
  if (IsFloat(t)) return Kind::kReal;
  if (IsInteger(t)) return IsSigned(t) ? Kind::kSigned : Kind::kUnsigned;
  return t == DType::kBool ? Kind::kUnsigned : Kind::kNone;
}

void Load(DType t, const void* data, int64_t offset, int64_t stride, int64_t n, Word* out) {
  const bool plain = DispatchDType<TENON_NUMERIC_TYPES, bool>(
      t, [&](auto tag) { LoadPlain<typename decltype(tag)::type>(data, offset, stride, n, out); });
  if (!plain) LoadSmall(t, data, offset, stride, n, out);
}

void Store(DType t, void* data, int64_t offset, int64_t n, const Word* in) {
  const bool plain = DispatchDType<TENON_NUMERIC_TYPES, bool>(
      t, [&](auto tag) { StorePlain<typename decltype(tag)::type>(data, offset, n, in); });
  if (plain) return;
  const int bits = DTypeBits(t);
  auto* p = static_cast<uint8_t*>(data);
  const bool real = IsFloat(t);
  for (int64_t k = 0; k < n; ++k) {
    const uint8_t raw = real ? F32ToSmallFloat(t, static_cast<float>(in[k].f), true) : static_cast<uint8_t>(in[k].u);
    SetRawBits(p, bits, offset + k, raw);
  }
}

namespace {

// Saturating truncation to an integer type of `bits` bits.
void RealToInteger(int bits, bool is_signed, int64_t n, Word* w) {
  const double upper = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // first value too large
  const double lower = is_signed ? -upper : 0.0;
  const uint64_t max = is_signed ? (uint64_t{1} << (bits - 1)) - 1 : std::numeric_limits<uint64_t>::max() >> (64 - bits);
  for (int64_t k = 0; k < n; ++k) {
    const double v = std::trunc(w[k].f);
    if (std::isnan(v)) {
      w[k].u = 0;
    } else if (v >= upper) {
      w[k].u = max;
    } else if (v <= lower) {
      w[k].i = is_signed ? -static_cast<int64_t>(max) - 1 : 0;
    } else if (is_signed) {
      w[k].i = static_cast<int64_t>(v);
    } else {
      w[k].u = static_cast<uint64_t>(v);
    }
  }
}

}  // namespace

void ConvertKind(Kind from, DType to, int64_t n, Word* words) {
  const Kind target = KindOf(to);
  if (from == Kind::kReal) {
    if (target == Kind::kReal) return;
    if (to == DType::kBool) {
      for (int64_t k = 0; k < n; ++k) words[k].u = words[k].f != 0.0 ? 1 : 0;
    } else if (DTypeBits(to) < 8) {
      // Undefined by ONNX when out of range; its own tests keep the low bits, as two's complement does.
      RealToInteger(64, true, n, words);
    } else {
      RealToInteger(DTypeBits(to), target == Kind::kSigned, n, words);
    }
    return;
  }
  // Between integers the bits are already right: Store keeps the low ones.
  if (target != Kind::kReal) return;
  // To float and narrower through float, in one rounding.
  const bool wide = to == DType::kF64;
  if (from == Kind::kSigned) {
    for (int64_t k = 0; k < n; ++k) words[k].f = wide ? static_cast<double>(words[k].i) : static_cast<float>(words[k].i);
  } else {
    for (int64_t k = 0; k < n; ++k) words[k].f = wide ? static_cast<double>(words[k].u) : static_cast<float>(words[k].u);
  }
}

}  // namespace tenon::kernels::elementwise
