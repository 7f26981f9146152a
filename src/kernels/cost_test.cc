// Operations and bytes of a step, against the formulas worked out by hand.
#include "kernels/cost.h"

#include <gtest/gtest.h>

namespace tenon::kernels {

namespace {

View Of(std::initializer_list<int64_t> extents, DType dtype = DType::kF32) {
  return View{dtype, Shape(std::vector<int64_t>(extents)), nullptr, nullptr};
}

Cost Price(const char* op, std::vector<View> in, std::vector<View> out, const Attrs& attrs = {}) {
  return CostOf(op, attrs, in, out);
}

TEST(Cost, ProductsByTheirSums) {
  const Cost c = Price("MatMul", {Of({2, 3, 4}), Of({4, 5})}, {Of({2, 3, 5})});
  EXPECT_EQ(c.flops, 2.0 * 2 * 3 * 5 * 4);
  EXPECT_EQ(c.bytes, 4.0 * (24 + 20 + 30));
  EXPECT_EQ(c.product, DType::kF32);
  Attrs turned;
  turned.Set("transA", int64_t{1});
  EXPECT_EQ(Price("Gemm", {Of({4, 3}), Of({4, 5})}, {Of({3, 5})}, turned).flops, 2.0 * 3 * 5 * 4);
  EXPECT_EQ(Price("FusedMatMul", {Of({3, 4}), Of({4, 5}, DType::kBF16), Of({5})}, {Of({3, 5})}).product, DType::kBF16);
  EXPECT_EQ(Price("MatMul", {Of({4}), Of({4})}, {Of({})}).flops, 8);
}

TEST(Cost, ConvolutionsByTheirWeights) {
  const std::vector<View> y{Of({1, 8, 10, 10})};
  EXPECT_EQ(Price("FusedConv", {Of({1, 4, 12, 12}), Of({8, 4, 3, 3})}, y).flops, 2.0 * 800 * 36);
  EXPECT_EQ(Price("Conv", {Of({1, 8, 12, 12}), Of({8, 1, 3, 3}), Of({8})}, y).flops, 2.0 * 800 * 9);
  EXPECT_EQ(Price("ConvTranspose", {Of({1, 4, 5, 5}), Of({4, 8, 2, 2})}, y).flops, 2.0 * 100 * 32);
  const View scale = Of({}), zero = Of({}, DType::kU8);
  const Cost q = Price("QLinearConv",
                       {Of({1, 4, 12, 12}, DType::kU8), scale, zero, Of({8, 4, 3, 3}, DType::kI8), Of({8}), zero, scale, zero},
                       {Of({1, 8, 10, 10}, DType::kU8)});
  EXPECT_EQ(q.flops, 2.0 * 800 * 36);
  EXPECT_EQ(q.product, DType::kI8);
}

TEST(Cost, AttentionByVisibleKeys) {
  const std::vector<View> in{Of({2, 3, 5, 8}), Of({2, 3, 7, 8}), Of({2, 3, 7, 4})};
  EXPECT_EQ(Price("Attention", in, {Of({2, 3, 5, 4})}).flops, 2.0 * 2 * 3 * 5 * 7 * (8 + 4));
  Attrs causal;
  causal.Set("is_causal", int64_t{1});
  EXPECT_EQ(Price("Attention", in, {Of({2, 3, 5, 4})}, causal).flops, 2.0 * 2 * 3 * (1 + 2 + 3 + 4 + 5) * (8 + 4));
}

TEST(Cost, RecurrentByTheirProducts) {
  const Cost c = Price("LSTM", {Of({6, 2, 3}), Of({2, 20, 3}), Of({2, 20, 5})}, {Of({6, 2, 2, 5})});
  EXPECT_EQ(c.flops, 2.0 * 6 * 2 * (2 * 20 * 3 + 2 * 20 * 5));
}

TEST(Cost, EinsumByItsLabels) {
  Attrs a;
  a.Set("equation", std::string("bij, bjk -> bik"));
  EXPECT_EQ(Price("Einsum", {Of({2, 3, 4}), Of({2, 4, 5})}, {Of({2, 3, 5})}, a).flops, 2.0 * 2 * 3 * 4 * 5);
  a.Set("equation", std::string("ijkl"));   // more labels than axes: nothing is counted, nothing read beyond
  EXPECT_EQ(Price("Einsum", {Of({2, 3}), Of({2})}, {Of({2})}, a).flops, 0);
}

TEST(Cost, MovingDataCountsBytesAlone) {
  const Cost c = Price("Gather", {Of({1000, 8}), Of({3}, DType::kI64)}, {Of({3, 8})});
  EXPECT_EQ(c.flops, 0);
  EXPECT_EQ(c.bytes, 96 + 96 + 24);
  EXPECT_EQ(c.product, DType::kUndefined);
}

TEST(Cost, WhateverStandsThere) {
  for (const char* op : {"MatMul", "Conv", "ConvTranspose", "Attention", "FusedAttention", "LSTM", "Einsum", "Softmax",
                         "NoSuchOperator", "Gather"}) {
    EXPECT_GE(Price(op, {}, {}).flops, 0) << op;
    EXPECT_GE(Price(op, {View{}, View{}}, {View{}}).flops, 0) << op;
    EXPECT_GE(Price(op, {Of({})}, {Of({})}).flops, 0) << op;
    EXPECT_GE(Price(op, {Of({0, 0, 0, 0}), Of({0, 0, 0, 0}), Of({0, 0, 0, 0})}, {Of({0})}).flops, 0) << op;
  }
}

}  // namespace

}  // namespace tenon::kernels
