// Linear quantisation and integer products.
//
//   QuantizeLinear         y = saturate(round(x / scale) + zero_point), ties to even; per tensor, per axis or in blocks
//   DequantizeLinear       y = (x - zero_point) * scale
//   DynamicQuantizeLinear  uint8 with scale and zero point from the range of x, which is made to hold 0
//   MatMulInteger          y[..., m, n] = sum_k (a - a_zero)[..., m, k] * (b - b_zero)[..., k, n] in int32
//   ConvInteger            the same for convolution
//   QuantizedConv, QuantizedMatMul   internal: quantize/fused.h
//   QLinearMatMul, QLinearConv   integer product, scaled by a_scale * b_scale / y_scale, rounded to even, zero point added,
//   saturated
//
// Sums are exact in int32 (wrapping as two's complement where int32 itself would); no row may saturate on the way.
#ifndef TENON_KERNELS_QUANTIZE_QUANTIZE_H_
#define TENON_KERNELS_QUANTIZE_QUANTIZE_H_

#include "kernels/kernel.h"

namespace tenon::kernels::quantize {

std::span<const OpKernels> Operators();

/// Attributes of QuantizeLinear and DequantizeLinear.
struct LinearParams {
  bool quantize = true;
  int64_t axis = 1;
  int64_t block_size = 0;               ///< 0: not in blocks
  bool saturate = true;                 ///< float8 only
  DType output = DType::kUndefined;     ///< attribute output_dtype
  DType precision = DType::kUndefined;  ///< of the division; kUndefined: that of the scale
};
Result<LinearParams> ParseLinear(std::string_view op, const Attrs& attrs);

/// Which scale goes with which element: x seen as [outer, extent, inner].
struct Granularity {
  enum class Kind { kTensor, kAxis, kBlock } kind = Kind::kTensor;
  int64_t outer = 1, extent = 1, inner = 1;
  int64_t block = 1, blocks = 1;  ///< kBlock: elements per block, blocks along the axis

  int64_t ScaleIndex(int64_t o, int64_t a, int64_t i) const {
    if (kind == Kind::kTensor) return 0;
    if (kind == Kind::kAxis) return a;
    return (o * blocks + a / block) * inner + i;
  }
};
Result<Granularity> ResolveGranularity(const LinearParams& p, const Shape& x, const Shape& scale);

/// Integer range of a quantised type; false for types that are not integers.
bool QuantizedRange(DType t, int32_t* low, int32_t* high);
/// True for the types a tensor can be quantised to.
bool IsQuantizedType(DType t);

/// Element `i` as int32 of an integer type of at most 32 bits, packed 2- and 4-bit types included.
int32_t LoadInt(DType t, const void* data, int64_t i);
/// Writes element `i`. Packed types: elements of one byte must be written in ascending order, the first clears the byte.
void StoreInt(DType t, void* data, int64_t i, int32_t value);
/// Element as f32 of f32, f16, bf16, int32 and the narrower integers, the small floats.
float LoadFloat(DType t, const void* data, int64_t i);
void StoreFloat(DType t, void* data, int64_t i, float value);

/// round-half-even(v) + zero, saturated to [low, high]; NaN counts as 0.
int32_t RoundSaturate(float v, int32_t zero, int32_t low, int32_t high);

Status InferQuantize(const ShapeArgs& args);
Status InferDequantize(const ShapeArgs& args);
Status InferDynamicQuantize(const ShapeArgs& args);
Status InferMatMulInteger(const ShapeArgs& args);
Status InferConvInteger(const ShapeArgs& args);
Status InferQLinearMatMul(const ShapeArgs& args);
Status InferQLinearConv(const ShapeArgs& args);

Result<std::unique_ptr<Kernel>> MakeLinear(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDynamicQuantize(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeIntegerMatMul(const Problem& problem);  ///< MatMulInteger and QLinearMatMul
Result<std::unique_ptr<Kernel>> MakeIntegerConv(const Problem& problem);    ///< ConvInteger and QLinearConv

/// ByteTable: quantize/byte_table.h.
Status InferByteTable(const ShapeArgs& args);
Refusal CanVbmi(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeByteTableVbmi(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeByteTable(const Problem& problem);

/// QuantizedBinary: quantize/binary.h.
Status InferQuantizedBinary(const ShapeArgs& args);
Result<std::unique_ptr<Kernel>> MakeBinaryAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBinaryVnni(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBinary(const Problem& problem);

/// Blocks of integers of at most 8 bits to f32.
Refusal CanBlocks(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBlocks(const Problem& problem);

/// Fast rows: f32 and bytes. (Those of products: quantize/int8.h.)
Refusal CanFastLinear(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeLinearAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeLinearVnni(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDynamicAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDynamicVnni(const Problem& problem);

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_QUANTIZE_H_
