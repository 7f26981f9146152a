// The 8- and 4-bit floats of ONNX (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, float4_e2m1fn)
// as bit patterns, with exact decoding and round-to-nearest-even encoding (ONNX: docs/technical/float8.md, float4.md).
#ifndef TENON_BASE_SMALL_FLOAT_H_
#define TENON_BASE_SMALL_FLOAT_H_

#include <cstdint>

#include "tenon/types.h"

namespace tenon {

/// How float8_e8m0fnu rounds a magnitude that is no power of two.
enum class E8M0Round : uint8_t { kUp, kDown, kNearest };

/// Value of `bits` in format `t` (one of the formats above); NaN for a NaN pattern.
float SmallFloatToF32(DType t, uint8_t bits);

/// The pattern nearest to `value`, ties to even. What is too large (infinity too) becomes the largest finite value when
/// `saturate`, else the format's infinity or NaN. float4_e2m1fn has neither, so it always saturates and turns NaN into -0.
/// float8_e8m0fnu has no sign, no zero and no infinity: zero becomes its smallest value when `saturate`, else NaN; a negative
/// value counts by its magnitude.
uint8_t F32ToSmallFloat(DType t, float value, bool saturate, E8M0Round round = E8M0Round::kUp);

}  // namespace tenon

#endif  // TENON_BASE_SMALL_FLOAT_H_
