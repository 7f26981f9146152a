// Matrix products: definitions by hand and refusals of contradictory operands.
#include "kernels/matmul/matmul.h"

#include <gtest/gtest.h>

namespace tenon::kernels::matmul {
namespace {

Result<Tensor> Eval(std::string_view op, const Attrs& attrs, std::vector<Tensor> in, std::string_view row = "reference") {
  std::vector<View> views;
  for (const Tensor& t : in) views.push_back(t.defined() ? t.view() : View{});
  hw::Team team(1);
  auto r = Evaluate(op, attrs, views, 1, hw::DetectIsa(), team, row);
  if (!r.ok()) return std::move(r).TakeStatus();
  return (*r)[0];
}

template <typename T>
std::vector<T> Values(const Tensor& t) {
  return std::vector<T>(t.Data<T>(), t.Data<T>() + t.shape().num_elements());
}

TEST(MatMul, FollowsNumpy) {
  const Tensor a = Tensor::FromVector<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = Tensor::FromVector<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  const Tensor v = Tensor::FromVector<float>({3}, {1, 1, 2});
  auto y = Eval("MatMul", {}, {a, b});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(Values<float>(*y), (std::vector<float>{4, 5, 10, 11}));
  y = Eval("MatMul", {}, {a, v});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(y->shape(), Shape({2}));
  EXPECT_EQ(Values<float>(*y), (std::vector<float>{9, 21}));
  y = Eval("MatMul", {}, {v, b});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(Values<float>(*y), (std::vector<float>{3, 3}));
  y = Eval("MatMul", {}, {v, v});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(y->shape(), Shape());
  EXPECT_EQ(Values<float>(*y), (std::vector<float>{6}));
}

TEST(MatMul, BroadcastsBatchesAndWrapsIntegers) {
  const Tensor a = Tensor::FromVector<int32_t>({2, 1, 1, 2}, {1, 2, 2147483647, 1});
  const Tensor b = Tensor::FromVector<int32_t>({3, 2, 1}, {1, 1, 2, 0, 0, 1});
  auto y = Eval("MatMul", {}, {a, b});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(y->shape(), Shape({2, 3, 1, 1}));
  EXPECT_EQ(Values<int32_t>(*y), (std::vector<int32_t>{3, 2, 2, -2147483647 - 1, -2, 1}));
}

TEST(Gemm, ScalesTransposesAndBroadcastsC) {
  Attrs attrs;
  attrs.Set("transA", int64_t{1});
  attrs.Set("transB", int64_t{1});
  attrs.Set("alpha", 2.0F);
  attrs.Set("beta", 0.5F);
  const Tensor a = Tensor::FromVector<float>({2, 1}, {1, 2});
  const Tensor b = Tensor::FromVector<float>({3, 2}, {1, 1, 2, 0, 0, 1});
  auto y = Eval("Gemm", attrs, {a, b, Tensor::FromVector<float>({1, 1}, {4})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(Values<float>(*y), (std::vector<float>{8, 6, 6}));
}

TEST(MatMul, RefusesContradictions) {
  const Tensor a = Tensor::FromVector<float>({1, 2}, {1, 2});
  const Tensor b = Tensor::FromVector<float>({3, 1}, {1, 2, 3});
  EXPECT_EQ(Eval("MatMul", {}, {a, b}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("MatMul", {}, {a, Tensor::Scalar(1.0F)}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("MatMul", {}, {a, Tensor::FromVector<int32_t>({2, 1}, {1, 2})}).status().code(), Code::kBadInput);
  Attrs attrs;
  attrs.Set("activation", std::string("Swoosh"));
  EXPECT_EQ(Eval("FusedMatMul", attrs, {a, Tensor::FromVector<float>({2, 1}, {1, 2})}).status().code(), Code::kBadInput);
}

TEST(MatMul, KeepsSymbols) {
  ValueInfo in[2], out[1];
  in[0] = ValueInfo{DType::kF32, true, false, SymShape(std::vector<Dim>{Dim::Symbol("n"), Dim::Symbol("s"), 8}), nullptr, {}};
  in[1] = ValueInfo{DType::kF32, true, false, SymShape(std::vector<Dim>{8, 4}), nullptr, {}};
  out[0].present = true;
  ASSERT_TRUE(InferShapes("MatMul", {Attrs(), in, out}).ok());
  EXPECT_EQ(out[0].shape.ToString(), "[n,s,4]");
}

}  // namespace
}  // namespace tenon::kernels::matmul
