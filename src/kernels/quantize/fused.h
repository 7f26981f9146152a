// The integer operators that passes make of quantised models (internal, like FusedConv):
//
//   QuantizedConv    y = to(act(grid(conv(q(x), w) * scales + bias) + residual));
//                    x, w, w_scale, bias?, residual?, w_zero?, x_scale?, x_zero?
//   QuantizedMatMul  the same of a matrix product; inputs a, b, b_scale, bias?, residual?, b_zero?, a_scale?, a_zero?
//
// x is uint8 or int8 with `x_scale` and `x_zero_point`, or float32 to be quantised so first (to type `x_dtype`; QuantizedMatMul
// with `dynamic` = 1: to uint8 by the range of x, as DynamicQuantizeLinear does). w is int8 or uint8 with `w_scale` [1] or [oc]
// and zero points of its type (absent: 0). bias [oc] is float32, or int32 to be added to the sums. The residual has the shape of
// y: float32, bfloat16, or bytes with `residual_scale` and `residual_zero_point`. Sums are exact in int32.
//
// Attributes beside those of Conv and of gemm/activation.h, `data_layout` and (QuantizedMatMul) `transB`:
//   x_scale x_zero_point x_dtype dynamic residual_scale residual_zero_point
//   output_dtype               TensorProto number of float32 (default), bfloat16, uint8 or int8
//   y_scale y_zero_point       of uint8 and int8
//   grid_scale grid_zero_point grid_dtype   the value before the residual is rounded to what this quantisation can say
#ifndef TENON_KERNELS_QUANTIZE_FUSED_H_
#define TENON_KERNELS_QUANTIZE_FUSED_H_

#include "kernels/gemm/activation.h"
#include "kernels/quantize/quantize.h"

namespace tenon::kernels::quantize {

inline constexpr size_t kFusedX = 0, kFusedW = 1, kFusedScale = 2, kFusedBias = 3, kFusedResidual = 4, kFusedZero = 5,
                        kFusedXScale = 6, kFusedXZero = 7;

/// A quantisation per tensor.
struct Grid {
  DType type = DType::kUndefined;
  float scale = 1;
  int32_t zero = 0;
};

struct FusedParams {
  Grid x, y, grid, residual;   ///< type kUndefined: not given
  DType output = DType::kF32;
  bool dynamic = false;
  bool trans_b = false;
  gemm::Activation activation;
};

/// kBadInput for values out of range.
Result<FusedParams> ParseFused(const Attrs& attrs);

Status InferQuantizedConv(const ShapeArgs& args);
Status InferQuantizedMatMul(const ShapeArgs& args);

Result<std::unique_ptr<Kernel>> MakeFusedReference(const Problem& problem);

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_FUSED_H_
