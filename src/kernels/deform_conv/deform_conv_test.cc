#include "kernels/deform_conv/deform_conv.h"

#include "kernels/golden_test_util.h"
#include "kernels/row_check.h"

namespace tenon::kernels::deform_conv {
namespace {

TEST(DeformConv, OnnxNodeCases) {
  testing::RunGoldens("deform_conv.golden", 3);
}

TEST(DeformConv, WithoutOffsetsIsAConvolution) {
  const Tensor x = RandomF32({2, 4, 6, 5}, 1);
  const Tensor w = RandomF32({6, 2, 3, 2}, 2);
  const Tensor bias = RandomF32({6}, 3);
  Attrs attrs;
  attrs.Set("group", int64_t{2});
  attrs.Set("pads", std::vector<int64_t>{1, 0, 1, 1});
  attrs.Set("strides", std::vector<int64_t>{2, 1});
  const auto want = Eval("Conv", attrs, {x, w, bias});
  ASSERT_TRUE(want.ok());
  const Shape& y = (*want)[0].shape();
  attrs.Set("offset_group", int64_t{2});
  const auto got = Eval("DeformConv", attrs, {x, w, *Tensor::Zeros(DType::kF32, {2, 2 * 6 * 2, y[2], y[3]}), bias});
  ASSERT_TRUE(got.ok()) << got.status().message();
  ExpectClose((*got)[0], (*want)[0], 1e-5, 1e-5, "DeformConv");
}

TEST(DeformConv, RefusesOffsetsThatDoNotFit) {
  const Tensor x = RandomF32({1, 2, 4, 4}, 1);
  const Tensor w = RandomF32({1, 2, 2, 2}, 2);
  EXPECT_TRUE(Eval("DeformConv", {}, {x, w, RandomF32({1, 8, 3, 3}, 3, -1e30f, 1e30f)}).ok());
  EXPECT_EQ(Eval("DeformConv", {}, {x, w, RandomF32({1, 8, 2, 3}, 3)}).status().code(), Code::kBadInput);
  Attrs attrs;
  attrs.Set("offset_group", int64_t{0});
  EXPECT_EQ(Eval("DeformConv", attrs, {x, w, RandomF32({1, 8, 3, 3}, 3)}).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels::deform_conv
