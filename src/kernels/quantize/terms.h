// What an integer product becomes, for all six operators: quantisations, scales and addends, resolved against the inputs of a
// run.
#ifndef TENON_KERNELS_QUANTIZE_TERMS_H_
#define TENON_KERNELS_QUANTIZE_TERMS_H_

#include "kernels/gemm/int8.h"
#include "kernels/quantize/fused.h"

namespace tenon::kernels::quantize {

struct Terms {
  Grid x;                          ///< of the bytes that are multiplied
  View w_scale, w_zero, bias;      ///< per column or absent (scale: 1)
  DType w_type = DType::kI8;
  DType output = DType::kI32;
  Grid y, grid, residual;
  View residual_view;
  bool residual_is_row = false;    ///< [channels], for every row
  gemm::Activation activation;
};

/// Where the inputs of MatMulInteger, QLinearMatMul, ConvInteger and QLinearConv are; 0 for absent ones (x is always input 0).
struct LinearInputs {
  bool requantize = false;
  size_t w = 1, x_zero = 0, w_zero = 0, x_scale = 0, w_scale = 0, y_scale = 0, y_zero = 0, bias = 0;
};
LinearInputs LinearInputsOf(std::string_view op);
inline bool IsFused(std::string_view op) {
  return op == "QuantizedConv" || op == "QuantizedMatMul";
}

/// kBadInput when a quantity has neither 1 nor `channels` elements. A zero point of x with more than one is left to the caller.
Result<Terms> TermsOf(const LinearInputs& in, const RunArgs& args, int64_t channels);
Result<Terms> TermsOf(const FusedParams& p, const RunArgs& args, int64_t channels);

/// Bytes of scratch that Bind needs for `channels` columns.
size_t ColumnBytes(int64_t channels);
/// Everything of `operands` that belongs to columns or to Y as a whole: `y` and the residual have one element a column in each
/// row. `sums`: of the packed weights of each column, which have `terms` elements; `flips_signed` as in Int8Kernels.
void Bind(const Terms& t, bool flips_signed, std::span<const int32_t> sums, int64_t terms, void* y, const void* residual,
          std::byte* scratch, gemm::Int8Operands* operands);

/// What convolutions ask beyond TermsOf: one zero point of x, a bias of one element a channel.
Status CheckConvTerms(const Terms& t, bool fused, const LinearInputs& in, const RunArgs& args, int64_t channels);

/// Rows of x as bytes: `from` is bytes already, or f32.
void QuantizeRow(const void* from, DType type, const Grid& grid, int64_t n, hw::IsaMask isa, uint8_t* to);

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_TERMS_H_
