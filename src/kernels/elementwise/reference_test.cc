// Values of the reference kernels, from ONNX's definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/kernel.h"

namespace tenon::kernels {
namespace {

Result<Tensor> Compute(std::string_view op, const std::vector<Tensor>& in, const Attrs& attrs = {}) {
  hw::Team team(1);
  std::vector<View> views;
  for (const Tensor& t : in) views.push_back(t.defined() ? t.view() : View{});
  TENON_ASSIGN_OR_RETURN(auto out, Evaluate(op, attrs, views, 1, hw::kBaseline, team));
  return out[0];
}

template <typename T>
std::vector<T> Values(const Result<Tensor>& t) {
  EXPECT_TRUE(t.ok()) << (t.ok() ? "" : t.status().message());
  if (!t.ok()) return {};
  const T* p = t.value().Data<T>();
  return std::vector<T>(p, p + t.value().shape().num_elements());
}

template <typename T>
Tensor Vec(std::vector<T> v) {
  const auto n = static_cast<int64_t>(v.size());
  return Tensor::FromVector<T>(Shape{n}, v);
}

Attrs With(std::string name, AttrValue value) {
  Attrs a;
  a.Set(std::move(name), std::move(value));
  return a;
}

TEST(Elementwise, ArithmeticBroadcasts) {
  const Tensor a = Tensor::FromVector<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor column = Tensor::FromVector<float>(Shape{2, 1}, {10, 20});
  EXPECT_EQ(Values<float>(Compute("Add", {a, Vec<float>({10, 20, 30})})), (std::vector<float>{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(Values<float>(Compute("Mul", {a, column})), (std::vector<float>{10, 20, 30, 80, 100, 120}));
  EXPECT_EQ(Values<float>(Compute("Sub", {column, Vec<float>({1, 2, 3})})), (std::vector<float>{9, 8, 7, 19, 18, 17}));
  EXPECT_EQ(Values<float>(Compute("Div", {a, Tensor::Scalar(2.0f)})), (std::vector<float>{0.5, 1, 1.5, 2, 2.5, 3}));
  const auto empty = Compute("Add", {Tensor::FromVector<float>(Shape{0, 3}, {}), Vec<float>({1, 2, 3})});
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty.value().shape(), (Shape{0, 3}));
}

TEST(Elementwise, MismatchNamesBothShapes) {
  const auto r = Compute("Add", {Tensor::FromVector<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6}), Vec<float>({1, 2})});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.status().code(), Code::kBadInput);
  EXPECT_NE(r.status().message().find("[2,3]"), std::string::npos) << r.status().message();
  EXPECT_NE(r.status().message().find("[2]"), std::string::npos);
}

TEST(Elementwise, IntegersWrapAndNeverTrap) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Values<int32_t>(Compute("Div", {Vec<int32_t>({7, -7, 7, kMin, 5}), Vec<int32_t>({2, 2, -2, -1, 0})})),
            (std::vector<int32_t>{3, -3, -3, kMin, 0}));
  EXPECT_EQ(Values<int64_t>(Compute("Div", {Vec<int64_t>({kMin64, 1}), Vec<int64_t>({-1, 0})})),
            (std::vector<int64_t>{kMin64, 0}));
  EXPECT_EQ(Values<uint8_t>(Compute("Add", {Vec<uint8_t>({250}), Vec<uint8_t>({10})})), (std::vector<uint8_t>{4}));
  EXPECT_EQ(Values<int8_t>(Compute("Neg", {Vec<int8_t>({-128, 5})})), (std::vector<int8_t>{-128, -5}));
  EXPECT_EQ(Values<int64_t>(
                Compute("Mod", {Vec<int64_t>({-4, 7, 5, -4, 7, 5, kMin64, 3}), Vec<int64_t>({2, -3, 8, -2, 3, -8, -1, 0})})),
            (std::vector<int64_t>{0, -2, 5, 0, 1, -3, 0, 0}));
  EXPECT_EQ(Values<int64_t>(Compute("Mod", {Vec<int64_t>({-4, 7, 5}), Vec<int64_t>({3, -3, -8})}, With("fmod", int64_t{1}))),
            (std::vector<int64_t>{-1, 1, 5}));
  EXPECT_EQ(Values<uint8_t>(Compute("BitShift", {Vec<uint8_t>({16, 4, 1}), Vec<uint8_t>({1, 2, 9})},
                                    With("direction", std::string("RIGHT")))),
            (std::vector<uint8_t>{8, 1, 0}));
}

TEST(Elementwise, PowMixesTypes) {
  EXPECT_EQ(Values<float>(Compute("Pow", {Vec<float>({1, 2, 3}), Vec<int64_t>({4, 5, -1})})),
            (std::vector<float>{1, 32, 1.0f / 3}));
  EXPECT_EQ(Values<int64_t>(Compute("Pow", {Vec<int64_t>({1, 2, 9}), Vec<float>({4, 5, 0.5f})})),
            (std::vector<int64_t>{1, 32, 3}));
  EXPECT_EQ(Values<int32_t>(Compute("Pow", {Vec<int32_t>({3, 2, -1}), Vec<int32_t>({4, -1, -3})})),
            (std::vector<int32_t>{81, 0, -1}));
}

TEST(Elementwise, NanAndInfinity) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Values<bool>(Compute("IsInf", {Vec<float>({kInf, -kInf, kNan, 1})}, With("detect_negative", int64_t{0}))),
            (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(Values<bool>(Compute("IsNaN", {Vec<float>({kInf, -kInf, kNan, 1})})), (std::vector<bool>{false, false, true, false}));
  const auto max = Values<float>(Compute("Max", {Vec<float>({1, kNan, 3}), Vec<float>({kNan, 2, 2})}));
  EXPECT_TRUE(std::isnan(max[0]) && std::isnan(max[1]));
  EXPECT_EQ(max[2], 3);
  EXPECT_TRUE(std::isnan(Values<float>(Compute("Relu", {Vec<float>({kNan})}))[0]));
  EXPECT_EQ(Values<float>(Compute("Round", {Vec<float>({0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f})})),
            (std::vector<float>{0, 2, 2, 0, -2, -2}));
}

TEST(Elementwise, ClipTakesOptionalBounds) {
  const Tensor x = Vec<float>({-3, 0, 3});
  EXPECT_EQ(Values<float>(Compute("Clip", {x, Tensor::Scalar(-1.0f), Tensor::Scalar(1.0f)})), (std::vector<float>{-1, 0, 1}));
  EXPECT_EQ(Values<float>(Compute("Clip", {x, Tensor(), Tensor::Scalar(1.0f)})), (std::vector<float>{-3, 0, 1}));
  EXPECT_EQ(Values<float>(Compute("Clip", {x, Tensor::Scalar(2.0f), Tensor::Scalar(1.0f)})), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(Values<int8_t>(Compute("Clip", {Vec<int8_t>({-3, 0, 3}), Tensor::Scalar(int8_t{-1})})),
            (std::vector<int8_t>{-1, 0, 3}));
}

TEST(Elementwise, VariadicTakesAnyNumber) {
  EXPECT_EQ(Values<float>(Compute("Mean", {Vec<float>({1, 2}), Vec<float>({3, 4}), Tensor::Scalar(5.0f)})),
            (std::vector<float>{3, 11.0f / 3}));
  EXPECT_EQ(Values<float>(Compute("Sum", {Vec<float>({1, 2})})), (std::vector<float>{1, 2}));
  std::vector<Tensor> many(40, Vec<int32_t>({1, 2}));
  many[39] = Vec<int32_t>({0, 7});
  EXPECT_EQ(Values<int32_t>(Compute("Max", many)), (std::vector<int32_t>{1, 7}));
}

TEST(Elementwise, WhereAndEqual) {
  EXPECT_EQ(Values<bool>(Compute("Equal", {Tensor::FromStrings(Shape{2}, {"a", "b"}), Tensor::FromStrings(Shape{1}, {"b"})})),
            (std::vector<bool>{false, true}));
  const Tensor c = Tensor::FromVector<bool>(Shape{2, 1}, {true, false});
  EXPECT_EQ(Values<int64_t>(Compute("Where", {c, Vec<int64_t>({1, 2}), Tensor::Scalar(int64_t{9})})),
            (std::vector<int64_t>{1, 2, 9, 9}));
  const auto s = Compute("Where", {c, Tensor::FromStrings(Shape{1}, {"yes"}), Tensor::FromStrings(Shape{}, {"no"})});
  EXPECT_EQ(Values<std::string>(s), (std::vector<std::string>{"yes", "no"}));
}

TEST(Elementwise, CastKinds) {
  const auto cast = [](const Tensor& t, DType to, Attrs attrs = {}) {
    attrs.Set("to", int64_t{static_cast<int>(to)});
    return Compute("Cast", {t}, attrs);
  };
  EXPECT_EQ(Values<int32_t>(cast(Vec<float>({1.9f, -1.9f, 3e9f, NAN}), DType::kI32)),
            (std::vector<int32_t>{1, -1, INT32_MAX, 0}));
  EXPECT_EQ(Values<int8_t>(cast(Vec<int16_t>({200, -1}), DType::kI8)), (std::vector<int8_t>{-56, -1}));
  EXPECT_EQ(Values<bool>(cast(Vec<float>({0.5f, -0.0f}), DType::kBool)), (std::vector<bool>{true, false}));
  EXPECT_EQ(Values<float>(cast(Tensor::FromStrings(Shape{4}, {"3.14", "1e-5", "-INF", " 7 "}), DType::kF32)),
            (std::vector<float>{3.14f, 1e-5f, -INFINITY, 7}));
  EXPECT_EQ(Values<int64_t>(cast(Tensor::FromStrings(Shape{2}, {"9223372036854775807", "-5"}), DType::kI64)),
            (std::vector<int64_t>{INT64_MAX, -5}));
  EXPECT_FALSE(cast(Tensor::FromStrings(Shape{1}, {"abc"}), DType::kF32).ok());
  EXPECT_EQ(Values<std::string>(cast(Vec<int64_t>({12, -3}), DType::kString)), (std::vector<std::string>{"12", "-3"}));
  EXPECT_EQ(Values<std::string>(cast(Vec<float>({0.1f, 1}), DType::kString)), (std::vector<std::string>{"0.1", "1.0"}));
  const auto i4 = cast(Vec<int8_t>({-8, 7, 3}), DType::kI4);
  ASSERT_TRUE(i4.ok());
  EXPECT_EQ(i4.value().Data<uint8_t>()[0], 0x78);
  EXPECT_EQ(Values<int8_t>(cast(i4.value(), DType::kI8)), (std::vector<int8_t>{-8, 7, 3}));
  const auto f8 = cast(Vec<float>({448, 1000, -INFINITY, 0.0625f}), DType::kF8E4M3FN);
  ASSERT_TRUE(f8.ok());
  EXPECT_EQ(Values<float>(cast(f8.value(), DType::kF32)), (std::vector<float>{448, 448, -448, 0.0625f}));
  const auto open = cast(cast(Vec<float>({1e6f, -1e6f}), DType::kF8E5M2, With("saturate", int64_t{0})).value(), DType::kF32);
  EXPECT_EQ(Values<float>(open), (std::vector<float>{INFINITY, -INFINITY}));
  EXPECT_FALSE(cast(Vec<float>({1}), static_cast<DType>(77)).ok());
}

TEST(Elementwise, HostileInputsAreRefused) {
  EXPECT_EQ(Compute("Add", {Vec<float>({1}), Vec<double>({1})}).status().code(), Code::kBadInput);
  EXPECT_EQ(Compute("Add", {Vec<float>({1})}).status().code(), Code::kBadInput);
  EXPECT_EQ(Compute("Add", {Vec<float>({1}), Tensor()}).status().code(), Code::kBadInput);
  EXPECT_EQ(Compute("Gelu", {Vec<float>({1})}, With("approximate", std::string("maybe"))).status().code(), Code::kBadInput);
  EXPECT_EQ(Compute("BitShift", {Vec<uint8_t>({1}), Vec<uint8_t>({1})}).status().code(), Code::kBadInput);
  EXPECT_EQ(Compute("PRelu", {Vec<float>({1}), Vec<float>({1, 2})}).status().code(), Code::kBadInput);
  EXPECT_EQ(Compute("Clip", {Vec<float>({1}), Vec<float>({1, 2})}).status().code(), Code::kBadInput);
  EXPECT_EQ(Compute("Abs", {Tensor::FromStrings(Shape{1}, {"a"})}).status().code(), Code::kBadInput);
}

std::optional<std::vector<Dim>> Elements(std::string_view op, std::vector<std::vector<Dim>> in, const Attrs& attrs = {}) {
  std::vector<ValueInfo> infos;
  for (size_t i = 0; i < in.size(); ++i) {
    ValueInfo v;
    v.present = true;
    v.dtype = op == "Where" && i == 0 ? DType::kBool : DType::kI64;
    v.shape = SymShape(Shape{static_cast<int64_t>(in[i].size())});
    v.elements = in[i];
    infos.push_back(v);
  }
  std::vector<ValueInfo> out(1);
  out[0].present = true;
  EXPECT_TRUE(InferShapes(op, {attrs, infos, out}).ok());
  return out[0].elements;
}

TEST(Elementwise, ShapeArithmeticKeepsSymbols) {
  const Dim n = Dim::Symbol("n");
  EXPECT_EQ(*Elements("Add", {{n, 3}, {1}}), (std::vector<Dim>{n + 1, 4}));
  EXPECT_EQ(*Elements("Div", {{n * 4, 7}, {2}}), (std::vector<Dim>{n * 2, 3}));
  EXPECT_EQ(*Elements("Equal", {{n, -1}, {-1}}), (std::vector<Dim>{0, 1}));
  EXPECT_EQ(*Elements("Where", {{0, 1}, {1}, {n, 5}}), (std::vector<Dim>{n, 1}));
  EXPECT_EQ(*Elements("Max", {{n, -2}, {0}}), (std::vector<Dim>{n, 0}));
  EXPECT_EQ(*Elements("Identity", {{n}}), (std::vector<Dim>{n}));
  EXPECT_EQ(*Elements("Cast", {{n}}, With("to", int64_t{6})), (std::vector<Dim>{n}));
}

TEST(Elementwise, SymbolicBroadcast) {
  std::vector<ValueInfo> in(2);
  for (auto& v : in) v.present = true, v.dtype = DType::kF32;
  in[0].shape = SymShape({Dim::Symbol("n"), 1, 8});
  in[1].shape = SymShape({Dim::Symbol("m"), 1});
  std::vector<ValueInfo> out(1);
  out[0].present = true;
  const Attrs none;
  ASSERT_TRUE(InferShapes("Add", {none, in, out}).ok());
  EXPECT_EQ(out[0].shape.ToString(), "[n,m,8]");
}

}  // namespace
}  // namespace tenon::kernels
