// Table of the quantisation family.
#include "kernels/quantize/quantize.h"

#include "kernels/kernel_util.h"
#include "kernels/quantize/fused.h"
#include "kernels/quantize/int8.h"

namespace tenon::kernels::quantize {
namespace {

constexpr hw::IsaMask kVnni = hw::kAvx2 | hw::kAvx512 | hw::kAvx512Vnni;
constexpr hw::IsaMask kAmx = kVnni | hw::kAmx;

constexpr GroupedRow kTable[] = {
#define KERNEL(op, name, needs, can, make) {op, {name, needs, can, make}},
#include "kernels/quantize/kernels.inc"
#undef KERNEL
};

}  // namespace

std::span<const OpKernels> Operators() {
  static const auto quantize = RowsOf(kTable, "QuantizeLinear");
  static const auto dequantize = RowsOf(kTable, "DequantizeLinear");
  static const auto dynamic = RowsOf(kTable, "DynamicQuantizeLinear");
  static const auto matmul = RowsOf(kTable, "MatMulInteger");
  static const auto qmatmul = RowsOf(kTable, "QLinearMatMul");
  static const auto conv = RowsOf(kTable, "ConvInteger");
  static const auto qconv = RowsOf(kTable, "QLinearConv");
  static const auto fused_conv = RowsOf(kTable, "QuantizedConv");
  static const auto fused_matmul = RowsOf(kTable, "QuantizedMatMul");
  static const auto table = RowsOf(kTable, "ByteTable");
  static const auto binary = RowsOf(kTable, "QuantizedBinary");
  static const OpKernels operators[] = {
      {"QuantizeLinear", InferQuantize, quantize, 2, 3, 1, 1},
      {"DequantizeLinear", InferDequantize, dequantize, 2, 3, 1, 1},
      {"DynamicQuantizeLinear", InferDynamicQuantize, dynamic, 1, 1, 1, 3},
      {"MatMulInteger", InferMatMulInteger, matmul, 2, 4, 1, 1},
      {"QLinearMatMul", InferQLinearMatMul, qmatmul, 8, 8, 1, 1},
      {"ConvInteger", InferConvInteger, conv, 2, 4, 1, 1},
      {"QLinearConv", InferQLinearConv, qconv, 8, 9, 1, 1},
      {"ByteTable", InferByteTable, table, 2, 2, 1, 1},
      {"QuantizedBinary", InferQuantizedBinary, binary, 2, 2, 1, 1},
      {"QuantizedConv", InferQuantizedConv, fused_conv, 3, 8, 1, 1},
      {"QuantizedMatMul", InferQuantizedMatMul, fused_matmul, 3, 8, 1, 1},
  };
  return operators;
}

}  // namespace tenon::kernels::quantize
