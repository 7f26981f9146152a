// Convolutions: definitions by hand, shapes with symbols, and refusals.
#include "kernels/conv/conv.h"

#include <gtest/gtest.h>

namespace tenon::kernels::conv {
namespace {

Result<Tensor> Eval(std::string_view op, const Attrs& attrs, std::vector<Tensor> in, std::string_view row = "reference") {
  std::vector<View> views;
  for (const Tensor& t : in) views.push_back(t.defined() ? t.view() : View{});
  hw::Team team(1);
  auto r = Evaluate(op, attrs, views, 1, hw::DetectIsa(), team, row);
  if (!r.ok()) return std::move(r).TakeStatus();
  return (*r)[0];
}

std::vector<float> Values(const Tensor& t) {
  return std::vector<float>(t.Data<float>(), t.Data<float>() + t.shape().num_elements());
}

Tensor Ones(const Shape& shape) {
  return Tensor::FromVector<float>(shape, std::vector<float>(static_cast<size_t>(shape.num_elements()), 1.0F));
}

TEST(Conv, PadsAndStrides) {
  Attrs attrs;
  attrs.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  attrs.Set("strides", std::vector<int64_t>{2, 2});
  auto y = Eval("Conv", attrs, {Ones({1, 1, 3, 4}), Ones({1, 1, 3, 3})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(y->shape(), Shape({1, 1, 2, 2}));
  EXPECT_EQ(Values(*y), (std::vector<float>{4, 6, 4, 6}));
}

// Field case N14: SAME_UPPER keeps ceil(in / stride), not the input's extent.
TEST(Conv, N14SameUpperWithStride) {
  Attrs attrs;
  attrs.Set("auto_pad", std::string("SAME_UPPER"));
  attrs.Set("strides", std::vector<int64_t>{2, 2});
  auto y = Eval("Conv", attrs, {Ones({1, 1, 7, 5}), Ones({1, 1, 3, 3})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(y->shape(), Shape({1, 1, 4, 3}));
  EXPECT_EQ(Values(*y), (std::vector<float>{4, 6, 4, 6, 9, 6, 6, 9, 6, 4, 6, 4}));
}

TEST(Conv, GroupsAndChannelsLastAgree) {
  Attrs attrs;
  attrs.Set("group", int64_t{2});
  const Tensor w = Tensor::FromVector<float>({2, 1, 1}, {2, 3});
  auto y = Eval("FusedConv", attrs, {Tensor::FromVector<float>({1, 2, 2}, {1, 2, 3, 4}), w});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(Values(*y), (std::vector<float>{2, 4, 9, 12}));
  attrs.Set("data_layout", std::string("NHWC"));
  y = Eval("FusedConv", attrs, {Tensor::FromVector<float>({1, 2, 2}, {1, 3, 2, 4}), w});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(Values(*y), (std::vector<float>{2, 9, 4, 12}));
}

TEST(FusedConv, AddsBiasAndResidualBeforeTheActivation) {
  Attrs attrs;
  attrs.Set("activation", std::string("Relu"));
  attrs.Set("post_scale", 2.0F);
  attrs.Set("post_shift", 1.0F);
  const Tensor x = Tensor::FromVector<float>({1, 1, 2}, {1, -5});
  auto y = Eval("FusedConv", attrs,
                {x, Ones({1, 1, 1}), Tensor::FromVector<float>({1}, {1}), Tensor::FromVector<float>({1, 1, 2}, {1, 1})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(Values(*y), (std::vector<float>{7, 1}));
}

TEST(ConvTranspose, ScattersAndCrops) {
  Attrs attrs;
  attrs.Set("strides", std::vector<int64_t>{2});
  auto y = Eval("ConvTranspose", attrs, {Tensor::FromVector<float>({1, 1, 2}, {1, 10}), Ones({1, 1, 3})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(Values(*y), (std::vector<float>{1, 1, 11, 10, 10}));
  attrs.Set("pads", std::vector<int64_t>{1, 0});
  attrs.Set("output_padding", std::vector<int64_t>{1});
  y = Eval("ConvTranspose", attrs, {Tensor::FromVector<float>({1, 1, 2}, {1, 10}), Ones({1, 1, 3})});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(Values(*y), (std::vector<float>{1, 11, 10, 10, 0}));
}

TEST(Conv, KeepsSymbols) {
  ValueInfo in[2], out[1];
  in[0] =
      ValueInfo{DType::kF32, true, false, SymShape(std::vector<Dim>{Dim::Symbol("n"), 3, Dim::Symbol("h"), 224}), nullptr, {}};
  in[1] = ValueInfo{DType::kF32, true, false, SymShape(std::vector<Dim>{8, 3, 3, 3}), nullptr, {}};
  out[0].present = true;
  Attrs attrs;
  attrs.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  ASSERT_TRUE(InferShapes("Conv", {attrs, in, out}).ok());
  EXPECT_EQ(out[0].shape.ToString(), "[n,8,h,224]");
}

TEST(Conv, RefusesContradictions) {
  const auto code = [](const Attrs& attrs, const Shape& x, const Shape& w) {
    return Eval("Conv", attrs, {Ones(x), Ones(w)}).status().code();
  };
  EXPECT_EQ(code({}, {1, 2, 4}, {1, 1, 3}), Code::kBadInput);       // channels
  EXPECT_EQ(code({}, {1, 1, 2}, {1, 1, 3}), Code::kBadInput);       // kernel larger than the input
  EXPECT_EQ(code({}, {1, 1, 2}, {1, 1, 0}), Code::kBadInput);
  EXPECT_EQ(code({}, {1, 1}, {1, 1}), Code::kBadInput);
  for (auto [name, bad] : {std::pair{"strides", 0}, {"dilations", -1}, {"pads", -1}, {"kernel_shape", 2}}) {
    Attrs attrs;
    attrs.Set(name, std::vector<int64_t>(name == std::string("pads") ? 2 : 1, bad));
    EXPECT_EQ(code(attrs, {1, 1, 4}, {1, 1, 3}), Code::kBadInput) << name;
  }
  Attrs attrs;
  attrs.Set("group", int64_t{0});
  EXPECT_EQ(code(attrs, {1, 1, 4}, {1, 1, 3}), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels::conv
