#include "passes/weight_only.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/precision.h"
#include "passes/testing.h"

namespace tenon::passes::testing {
namespace {

// `rows` x `columns` numbers between -0.5 and 0.5.
std::string Table(const char* name, int rows, int columns) {
  std::string text = fmt::format("{}: float32[{},{}] = const [", name, rows, columns);
  for (int i = 0; i < rows * columns; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", (i * 37 % 101) / 100.0 - 0.5);
  return text + "]\n";
}

PassContext WeightsOnly(DType weights) {
  PassContext context = Context();
  context.precision = DefaultPolicy();
  context.precision.int8 = true;
  context.precision.weights_only = weights;
  context.precision.white.insert("Gather");
  return context;
}

Outcome Lowered(const std::string& inputs, const std::string& body, DType weights = DType::kI8) {
  return Optimise("graph g(" + inputs + ") -> (y) {\n" + body + "}", {"LowerPrecision"}, WeightsOnly(weights));
}

TEST(WeightOnly, Products) {
  for (const DType weights : {DType::kI8, DType::kI4}) {
    const double most = weights == DType::kI8 ? 0.05 : 0.5;
    for (const char* body : {"y = MatMul(x, w)", "y = FusedMatMul(x, v) {transB=1, alpha=0.5}", "y = FusedMatMul(x, w, b, r)",
                             "y = FusedMatMul(x, w, b) {activation=\"Gelu\"}",
                             "y = FusedMatMul(x, w, b, r) {activation=\"Clip\", activation_params=[-1.0, 1.0]}",
                             "y = FusedMatMul(x, w) {activation=\"HardSwish\", post_scale=2.0, post_shift=0.5}",
                             "y = FusedMatMul(x, w) {activation=\"Silu\"}",
                             "y = FusedMatMul(x, w) {activation=\"LeakyRelu\", activation_params=[0.2]}",
                             "y = FusedMatMul(x, w) {activation=\"HardSigmoid\", activation_params=[0.3, 0.4]}"}) {
      const Outcome o = Lowered(
          "x: float32[3,64], r: float32[3,32]",
          Table("w", 64, 32) + Table("v", 32, 64) + "b: float32[32] = const [" +
              [] {
                std::string s = "0.5";
                for (int i = 1; i < 32; ++i) s += ", 0.25";
                return s;
              }() +
              "]\n" + body,
          weights);
      EXPECT_EQ(CountOps(o.graph, "BlockMatMul"), 1) << body << ir::Print(o.graph);
      EXPECT_EQ(CountOps(o.graph, "FusedMatMul") + CountOps(o.graph, "MatMul"), 0) << body;
      EXPECT_LT(o.difference, most) << body;
      EXPECT_GT(o.difference, 0) << body;
    }
  }
}

TEST(WeightOnly, WhatIsNoBlocksStays) {
  EXPECT_EQ(CountOps(Lowered("x: float32[3,48]", Table("w", 48, 32) + "y = MatMul(x, w)").graph, "BlockMatMul"), 0);
  EXPECT_EQ(CountOps(Lowered("x: float32[3,64], w: float32[64,32]", "y = MatMul(x, w)").graph, "BlockMatMul"), 0);
}

}  // namespace
}  // namespace tenon::passes::testing
