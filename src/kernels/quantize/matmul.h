// Integer matrix products: operands and their zero points and scales, resolved against concrete shapes.
#ifndef TENON_KERNELS_QUANTIZE_MATMUL_H_
#define TENON_KERNELS_QUANTIZE_MATMUL_H_

#include "kernels/matmul/matmul.h"
#include "kernels/quantize/quantize.h"

namespace tenon::kernels::quantize {

/// Input numbers of the two operators: MatMulInteger(a, b, a_zero?, b_zero?) and
/// QLinearMatMul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero).
struct MatMulInputs {
  bool requantize;
  size_t a, b, a_zero, b_zero;
  size_t a_scale = 0, b_scale = 0, y_scale = 0, y_zero = 0;  ///< QLinearMatMul only
};
inline MatMulInputs InputsOf(std::string_view op) {
  if (op == "QLinearMatMul") return {true, 0, 3, 2, 5, 1, 4, 6, 7};
  return {false, 0, 1, 2, 3};
}

/// A quantity per tensor, per line (row of A or column of B), or per line of each matrix of a batch.
struct PerLine {
  int64_t per_batch = 0, per_line = 0;
  int64_t Index(int64_t batch, int64_t line) const { return batch * per_batch + line * per_line; }
};
/// kBadInput unless `v` has 1, `lines`, or `batch * lines` elements. An absent view is per tensor.
Result<PerLine> ResolvePerLine(const View& v, const char* what, int64_t batch, int64_t lines);

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_MATMUL_H_
