// Access to single elements of quantised tensors, whatever their type.
#include <cmath>

#include "base/small_float.h"
#include "kernels/quantize/quantize.h"

namespace tenon::kernels::quantize {
namespace {

template <typename T>
T At(const void* data, int64_t i) {
  return static_cast<const T*>(data)[i];
}

bool IsSmallFloat(DType t) {
  return t == DType::kF8E4M3FN || t == DType::kF8E4M3FNUZ || t == DType::kF8E5M2 || t == DType::kF8E5M2FNUZ ||
         t == DType::kF8E8M0 || t == DType::kF4E2M1;
}

// Field `i` of `bits` bits, low fields first.
uint8_t Field(const void* data, int64_t i, int bits) {
  const int per = 8 / bits;
  return static_cast<uint8_t>(static_cast<const uint8_t*>(data)[i / per] >> (i % per * bits) & ((1 << bits) - 1));
}

void SetField(void* data, int64_t i, int bits, uint32_t value) {
  const int per = 8 / bits;
  uint8_t& byte = static_cast<uint8_t*>(data)[i / per];
  const int shift = static_cast<int>(i % per) * bits;
  const uint32_t mask = ((1u << bits) - 1) << shift;
  byte = static_cast<uint8_t>((shift == 0 ? 0 : byte & ~mask) | (value << shift & mask));
}

}  // namespace

bool QuantizedRange(DType t, int32_t* low, int32_t* high) {
  switch (t) {
    case DType::kU8: *low = 0, *high = 255; return true;
    case DType::kI8: *low = -128, *high = 127; return true;
    case DType::kU16: *low = 0, *high = 65535; return true;
    case DType::kI16: *low = -32768, *high = 32767; return true;
    case DType::kU4: *low = 0, *high = 15; return true;
    case DType::kI4: *low = -8, *high = 7; return true;
    case DType::kU2: *low = 0, *high = 3; return true;
    case DType::kI2: *low = -2, *high = 1; return true;
    default: return false;
  }
}

bool IsQuantizedType(DType t) {
  int32_t low = 0, high = 0;
  return QuantizedRange(t, &low, &high) || (IsSmallFloat(t) && t != DType::kF8E8M0);
}

int32_t LoadInt(DType t, const void* data, int64_t i) {
  switch (t) {
    case DType::kU8: return At<uint8_t>(data, i);
    case DType::kI8: return At<int8_t>(data, i);
    case DType::kU16: return At<uint16_t>(data, i);
    case DType::kI16: return At<int16_t>(data, i);
    case DType::kI32: return At<int32_t>(data, i);
    case DType::kU4: return Field(data, i, 4);
    case DType::kI4: return (Field(data, i, 4) ^ 8) - 8;
    case DType::kU2: return Field(data, i, 2);
    case DType::kI2: return (Field(data, i, 2) ^ 2) - 2;
    default: return 0;
  }
}

void StoreInt(DType t, void* data, int64_t i, int32_t value) {
  switch (t) {
    case DType::kU8:
    case DType::kI8: static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value); return;
    case DType::kU16:
    case DType::kI16: static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(value); return;
    case DType::kI32: static_cast<int32_t*>(data)[i] = value; return;
    case DType::kU4:
    case DType::kI4: SetField(data, i, 4, static_cast<uint32_t>(value)); return;
    case DType::kU2:
    case DType::kI2: SetField(data, i, 2, static_cast<uint32_t>(value)); return;
    default: return;
  }
}

float LoadFloat(DType t, const void* data, int64_t i) {
  switch (t) {
    case DType::kF32: return At<float>(data, i);
    case DType::kF16: return F16BitsToF32(At<uint16_t>(data, i));
    case DType::kBF16: return BF16BitsToF32(At<uint16_t>(data, i));
    case DType::kF4E2M1: return SmallFloatToF32(t, Field(data, i, 4));
    default: break;
  }
  if (IsSmallFloat(t)) return SmallFloatToF32(t, At<uint8_t>(data, i));
  return static_cast<float>(LoadInt(t, data, i));
}

void StoreFloat(DType t, void* data, int64_t i, float value) {
  switch (t) {
    case DType::kF32: static_cast<float*>(data)[i] = value; return;
    case DType::kF16: static_cast<uint16_t*>(data)[i] = F32ToF16Bits(value); return;
    case DType::kBF16: static_cast<uint16_t*>(data)[i] = F32ToBF16Bits(value); return;
    default: return;
  }
}

int32_t RoundSaturate(float v, int32_t zero, int32_t low, int32_t high) {
  if (std::isnan(v)) v = 0;
  // Far outside any range; keeps the sum below within exact integers.
  v = std::min(std::max(v, -1e8f), 1e8f);
  const double sum = static_cast<double>(std::nearbyint(v)) + zero;
  return static_cast<int32_t>(std::min<double>(std::max<double>(sum, low), high));
}

}  // namespace tenon::kernels::quantize
