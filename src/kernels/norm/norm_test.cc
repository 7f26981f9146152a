#include <gtest/gtest.h>

#include <limits>

#include "kernels/float_io.h"
#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

TEST(Norm, LayerRowsMatchReference) {
  uint32_t seed = 0;
  for (const Shape& s : {Shape{1, 1}, {3, 5}, {2, 3, 8}, {2, 17, 33}, {1, 5, 768}, {4, 1000}, {0, 8}, {2, 3, 9000}}) {
    const int64_t n = s.dim(-1);
    const Tensor x = RandomF32(s, ++seed), g = RandomF32({n}, ++seed), b = RandomF32({n}, ++seed), skip = RandomF32(s, ++seed);
    EXPECT_EQ(CheckRows("LayerNormalization", Attrs(), {x, g, b}, 3, 2e-5, 2e-5), 2);
    EXPECT_EQ(CheckRows("LayerNormalization", Attrs(), {x, g}, 1, 2e-5, 2e-5), 2);
    EXPECT_EQ(CheckRows("RMSNormalization", Attrs(), {x, g}, 1, 1e-5, 1e-5), 2);
    EXPECT_EQ(CheckRows("SimplifiedLayerNormalization", Attrs(), {x, g}, 2, 1e-5, 1e-5), 2);
    Attrs eps;
    eps.Set("epsilon", 1e-5f);
    EXPECT_EQ(CheckRows("SkipLayerNormalization", eps, {x, skip, g, b, b}, 4, 2e-5, 2e-5), 2);
    EXPECT_EQ(CheckRows("SkipLayerNormalization", eps, {x, skip, g, Tensor(), b}, 1, 2e-5, 2e-5), 2);
    EXPECT_EQ(CheckRows("SkipLayerNormalization", eps, {x, skip, g, b}, 1, 2e-5, 2e-5), 2);
    EXPECT_EQ(CheckRows("SkipSimplifiedLayerNormalization", eps, {x, skip, g, b}, 4, 1e-5, 1e-5), 2);
    if (s.rank() == 3) {
      const Shape row{s[1], s[2]};
      EXPECT_EQ(CheckRows("SkipLayerNormalization", eps, {x, RandomF32(row, ++seed), g, b}, 4, 2e-5, 2e-5), 2);
      Attrs axis;
      axis.Set("axis", int64_t{1});
      EXPECT_EQ(CheckRows("LayerNormalization", axis, {x, RandomF32(row, 7), RandomF32(row, 8)}, 3, 2e-5, 2e-5), 2);
      EXPECT_EQ(CheckRows("LayerNormalization", axis, {x, g}, 1, 2e-5, 2e-5), 2);  // the scale broadcasts over axis 1
    }
  }
}

TEST(Norm, LayerOfALargeMeanKeepsItsVariance) {
  const Tensor x = RandomF32({4, 512}, 1, 1000, 1001);
  EXPECT_EQ(CheckRows("LayerNormalization", Attrs(), {x, RandomF32({512}, 2)}, 1, 2e-3, 2e-3), 2);
}

TEST(Norm, ChannelRowsMatchReference) {
  uint32_t seed = 50;
  for (const Shape& s : {Shape{2, 4}, {1, 6, 1}, {2, 4, 3, 5}, {1, 32, 17, 9}, {2, 8, 130}, {1, 2, 3, 4, 5}, {0, 4, 3}}) {
    const int64_t c = s[1];
    const Tensor x = RandomF32(s, ++seed), g = RandomF32({c}, ++seed), b = RandomF32({c}, ++seed), m = RandomF32({c}, ++seed);
    const Tensor v = RandomF32({c}, ++seed, 0.5f, 2.0f);
    EXPECT_EQ(CheckRows("BatchNormalization", Attrs(), {x, g, b, m, v}, 1, 2e-5, 2e-5), 2);
    EXPECT_EQ(CheckRows("InstanceNormalization", Attrs(), {x, g, b}, 1, 1e-4, 1e-4), 2);
    Attrs groups;
    groups.Set("num_groups", int64_t{2});
    EXPECT_EQ(CheckRows("GroupNormalization", groups, {x, g, b}, 1, 1e-4, 1e-4), 2);
    for (int64_t size : {1, 2, 3, 5, 99}) {
      Attrs lrn;
      lrn.Set("size", size);
      lrn.Set("alpha", 0.3f);
      EXPECT_EQ(CheckRows("LRN", lrn, {x}, 1, 1e-5, 1e-6), 2);
    }
  }
}

// Field case N18: the mean square of a half-precision row must not overflow.
TEST(Norm, MeanVarianceAndLpRowsMatchReference) {
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{3, 1, 17}, Shape{1, 4, 33, 2}, Shape{0, 3, 4, 4}}) {
    const Tensor x = RandomF32(shape, 6);
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0, 2, 3}, {2, 3}, {0, 2}, {2}, {1}, {-1, -2}}) {
      Attrs attrs;
      attrs.Set("axes", axes);
      if (axes.back() < shape.rank()) CheckRows("MeanVarianceNormalization", attrs, {x}, 1, 1e-4, 1e-4);
    }
    for (int64_t p : {1, 2}) {
      for (int64_t axis : {-1, 1}) {
        Attrs attrs;
        attrs.Set("p", p);
        attrs.Set("axis", axis);
        EXPECT_EQ(CheckRows("LpNormalization", attrs, {x}, 1, 1e-5, 1e-6), 2);
      }
    }
  }
  // Sums beyond f32, of nothing, and with values that are no numbers.
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Tensor odd = Tensor::FromVector<float>({5, 2}, {1e30f, 2e30f, 0, 0, 1e-30f, 1e-31f, nan, 1, inf, 1});
  for (int64_t p : {1, 2}) {
    Attrs attrs;
    attrs.Set("p", p);
    EXPECT_EQ(CheckRows("LpNormalization", attrs, {odd}, 1, 1e-5, 0), 2);
  }
}

TEST(Norm, N18HalfPrecisionAccumulatesInF32) {
  constexpr int64_t kHidden = 2048;
  for (const char* op : {"RMSNormalization", "LayerNormalization"}) {
    std::vector<Half> x, one;
    for (int64_t i = 0; i < kHidden; ++i) {
      x.emplace_back(i % 2 == 0 ? 300.0f : -300.0f);
      one.emplace_back(1.0f);
    }
    auto y = Eval(op, Attrs(), {Tensor::FromVector<Half>({1, kHidden}, x), Tensor::FromVector<Half>({kHidden}, one)});
    ASSERT_TRUE(y.ok()) << y.status().message();
    for (int64_t i = 0; i < kHidden; ++i) ASSERT_EQ(LoadAt((*y)[0].view(), i), i % 2 == 0 ? 1.0 : -1.0);
  }
}

TEST(Norm, BadInputsAreErrors) {
  const Tensor x = RandomF32({2, 6, 3}, 1), g = RandomF32({6}, 2), wrong = RandomF32({5}, 3);
  EXPECT_EQ(Eval("InstanceNormalization", Attrs(), {x, wrong, g}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("LayerNormalization", Attrs(), {x, wrong}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("SkipLayerNormalization", Attrs(), {x, wrong, g}).status().code(), Code::kBadInput);
  Attrs groups;
  groups.Set("num_groups", int64_t{4});
  EXPECT_EQ(Eval("GroupNormalization", groups, {x, g, g}).status().code(), Code::kBadInput);
  groups.Set("num_groups", int64_t{-1});
  EXPECT_EQ(Eval("GroupNormalization", groups, {x, g, g}).status().code(), Code::kBadInput);
  Attrs size;
  size.Set("size", int64_t{0});
  EXPECT_EQ(Eval("LRN", size, {x}).status().code(), Code::kBadInput);
  Attrs axis;
  axis.Set("axis", int64_t{3});
  EXPECT_EQ(Eval("LayerNormalization", axis, {x, g}).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels
