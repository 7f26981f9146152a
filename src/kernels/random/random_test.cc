// Random numbers: the generator's published vector, moments, ranges, repeatability, hostile attributes.
#include "kernels/random/random.h"

#include "kernels/row_check.h"

namespace tenon::kernels::random {
namespace {

// Known answers of Random123 1.09 (kat_vectors: philox4x32 10).
TEST(Random, PhiloxGivesThePublishedWords) {
  const std::array<uint32_t, 4> zero = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), zero);
  const std::array<uint32_t, 4> ones = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(Philox({f, f, f, f}, {f, f}), ones);
}

Attrs Shaped(float seed) {
  Attrs attrs;
  attrs.Set("shape", std::vector<int64_t>{100, 100});
  attrs.Set("seed", seed);
  return attrs;
}

TEST(Random, NormalHasItsMoments) {
  Attrs attrs = Shaped(1);
  attrs.Set("mean", 3.0f);
  attrs.Set("scale", 2.0f);
  const auto y = Eval("RandomNormal", attrs, {});
  ASSERT_TRUE(y.ok()) << y.status().message();
  double sum = 0, squares = 0;
  for (int i = 0; i < 10000; ++i) {
    const double v = (*y)[0].Data<float>()[i];
    sum += v;
    squares += v * v;
  }
  const double mean = sum / 1e4;
  EXPECT_NEAR(mean, 3, 0.1);
  EXPECT_NEAR(std::sqrt(squares / 1e4 - mean * mean), 2, 0.1);
}

TEST(Random, UniformStaysInItsRangeAndFillsIt) {
  Attrs attrs = Shaped(2);
  attrs.Set("low", -1.0f);
  attrs.Set("high", 5.0f);
  const auto y = Eval("RandomUniform", attrs, {});
  ASSERT_TRUE(y.ok());
  int buckets[6] = {};
  for (int i = 0; i < 10000; ++i) {
    const float v = (*y)[0].Data<float>()[i];
    ASSERT_GE(v, -1.0f);
    ASSERT_LT(v, 5.0f);
    ++buckets[static_cast<int>(v + 1)];
  }
  for (int n : buckets) EXPECT_NEAR(n, 10000 / 6, 250);
}

TEST(Random, SeedsRepeatAndDiffer) {
  hw::Team one(1), two(2);
  const auto a = Evaluate("RandomNormal", Shaped(7), {}, 1, hw::DetectIsa(), one);
  const auto b = Evaluate("RandomNormal", Shaped(7), {}, 1, hw::kBaseline, two);
  const auto c = Evaluate("RandomNormal", Shaped(8), {}, 1, hw::DetectIsa(), one);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_TRUE(SameTensor((*a)[0].view(), (*b)[0].view()));
  EXPECT_FALSE(SameTensor((*a)[0].view(), (*c)[0].view()));
  Attrs unseeded;
  unseeded.Set("shape", std::vector<int64_t>{50});
  EXPECT_FALSE(SameTensor((*Eval("RandomUniform", unseeded, {}))[0].view(), (*Eval("RandomUniform", unseeded, {}))[0].view()));
}

TEST(Random, BernoulliAndMultinomialFollowTheirProbabilities) {
  Attrs attrs;
  attrs.Set("seed", 3.0f);
  attrs.Set("dtype", static_cast<int64_t>(DType::kI64));
  const Tensor p = Tensor::FromVector<float>({2000}, std::vector<float>(2000, 0.25f));
  const auto y = Eval("Bernoulli", attrs, {p});
  ASSERT_TRUE(y.ok());
  int64_t ones = 0;
  for (int i = 0; i < 2000; ++i) ones += (*y)[0].Data<int64_t>()[i];
  EXPECT_NEAR(static_cast<double>(ones), 500, 80);
  attrs.Set("sample_size", int64_t{3000});
  const Tensor logits = Tensor::FromVector<float>({1, 3}, {std::log(1.0f), std::log(2.0f), -INFINITY});
  const auto m = Eval("Multinomial", attrs, {logits});
  ASSERT_TRUE(m.ok());
  int counts[3] = {};
  for (int i = 0; i < 3000; ++i) ++counts[(*m)[0].Data<int64_t>()[i]];
  EXPECT_NEAR(counts[0], 1000, 120);
  EXPECT_EQ(counts[2], 0);
}

TEST(Dropout, WithASeedDrawsWhatNumPyDraws) {
  Attrs attrs;
  attrs.Set("seed", int64_t{0});
  const Tensor x = Tensor::FromVector<float>({4}, {1, 2, 3, 4});
  const Tensor on = Tensor::FromVector<bool>({}, {true});
  const auto ratio = [](float v) { return Tensor::Scalar<float>(v); };
  // RandomState(0).uniform(size=4): 0.5488 0.7152 0.6028 0.5449
  const auto y = Eval("Dropout", attrs, {x, ratio(0.6F), on}, 2);
  ASSERT_TRUE(y.ok()) << y.status().message();
  const float want[] = {0, 5, 7.5F, 0};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR((*y)[0].Data<float>()[i], want[i], 1e-5);
    EXPECT_EQ((*y)[1].Data<bool>()[i], want[i] != 0);
  }
  EXPECT_TRUE(SameTensor((*Eval("Dropout", attrs, {x, ratio(0), on}))[0].view(), x.view()));
  EXPECT_TRUE(SameTensor((*Eval("Dropout", attrs, {x}))[0].view(), x.view()));
  EXPECT_EQ(Eval("Dropout", attrs, {x, ratio(1), on}).status().code(), Code::kBadInput);
  attrs.Set("seed", int64_t{-1});
  EXPECT_EQ(Eval("Dropout", attrs, {x, ratio(0.5F), on}).status().code(), Code::kBadInput);
}

TEST(Dropout, WithoutASeedKeepsItsShareAndMovesOn) {
  const Tensor x = Tensor::FromVector<float>({2000}, std::vector<float>(2000, 1));
  const Tensor on = Tensor::FromVector<bool>({}, {true});
  const auto a = Eval("Dropout", {}, {x, Tensor::Scalar<float>(0.25F), on}), b = Eval("Dropout", {}, {x, Tensor(), on});
  ASSERT_TRUE(a.ok() && b.ok());
  int kept = 0;
  for (int i = 0; i < 2000; ++i) kept += (*a)[0].Data<float>()[i] != 0;
  EXPECT_NEAR(kept, 1500, 120);
  EXPECT_FALSE(SameTensor((*a)[0].view(), (*b)[0].view()));
}

TEST(Random, LikeFormsTakeShapeAndType) {
  const auto y = Eval("RandomNormalLike", {}, {Tensor::FromVector<double>({2, 3}, std::vector<double>(6))});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ((*y)[0].dtype(), DType::kF64);
  EXPECT_EQ((*y)[0].shape(), (Shape{2, 3}));
}

TEST(Random, RefusesBadAttributes) {
  Attrs attrs;
  attrs.Set("shape", std::vector<int64_t>{-1});
  EXPECT_EQ(Eval("RandomNormal", attrs, {}).status().code(), Code::kBadInput);
  attrs.Set("shape", std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_FALSE(Eval("RandomNormal", attrs, {}).ok());
  attrs.Set("shape", std::vector<int64_t>{2});
  attrs.Set("dtype", int64_t{8});
  EXPECT_EQ(Eval("RandomNormal", attrs, {}).status().code(), Code::kBadInput);
  attrs.Set("sample_size", int64_t{-1});
  EXPECT_EQ(Eval("Multinomial", attrs, {RandomF32({1, 2}, 1)}).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels::random
