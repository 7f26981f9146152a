// QuantizedBinary (internal): an addition or multiplication of two quantised values, the result quantised.
//
//   y = to((a - a_zero) * a_scale  op  (b - b_zero) * b_scale); a and b uint8 or int8, shapes broadcast as usual
//
// Attributes: op "Add" or "Mul"; a_scale a_zero_point b_scale b_zero_point y_scale y_zero_point; output_dtype uint8 or int8.
#ifndef TENON_KERNELS_QUANTIZE_BINARY_H_
#define TENON_KERNELS_QUANTIZE_BINARY_H_

#include "kernels/quantize/fused.h"

namespace tenon::kernels::quantize {

struct BinaryParams {
  bool multiplies = false;
  Grid a, b, y;
};
Result<BinaryParams> ParseBinary(const Attrs& attrs);
/// The quantisation of attributes `prefix`_scale and _zero_point. kBadInput for values out of range.
Result<Grid> GridAttrs(const Attrs& attrs, const std::string& prefix, DType type);

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_BINARY_H_
