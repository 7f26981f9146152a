// Table of domain ai.onnx.ml.
#include "kernels/ml/ml.h"

#include <array>

namespace tenon::kernels::ml {
namespace {

struct Entry {
  OpKernels op;
  Row row;
};

constexpr Entry kTable[] = {
#define KERNEL(op, rule, min_in, max_in, outputs, view, row, can, make) \
  {{"ai.onnx.ml." #op, rule, {}, min_in, max_in, 1, outputs, view}, {row, hw::kBaseline, can, make}},
#include "kernels/ml/kernels.inc"
#undef KERNEL
};
constexpr size_t kRows = std::size(kTable);

struct Tables {
  std::array<Row, kRows> rows;
  std::array<OpKernels, kRows> operators;
  size_t count = 0;

  Tables() {
    for (size_t i = 0; i < kRows; ++i) {
      rows[i] = kTable[i].row;
      if (i == 0 || kTable[i].op.op != kTable[i - 1].op.op) operators[count++] = kTable[i].op;
      OpKernels& op = operators[count - 1];
      op.rows = {op.rows.empty() ? &rows[i] : op.rows.data(), op.rows.size() + 1};
    }
  }
};

}  // namespace

std::span<const OpKernels> Operators() {
  static const Tables tables;
  return {tables.operators.data(), tables.count};
}

}  // namespace tenon::kernels::ml
