// Every bf16 row of the convolution family against the reference, in both layouts and all mixes of types.
#include "kernels/conv/conv.h"
#include "kernels/gemm/bf16_testing.h"

namespace tenon::kernels::conv {
namespace {

using testing::CheckBf16Rows;
using testing::Random;

struct Case {
  int64_t n, c, oc, group;
  std::vector<int64_t> in, kernel, stride, dilation, pads;
};

std::string Text(const Case& c) {
  std::string s = fmt::format("n{} c{} oc{} g{}", c.n, c.c, c.oc, c.group);
  for (const auto* v : {&c.in, &c.kernel, &c.stride, &c.dilation, &c.pads}) {
    s += " (";
    for (int64_t x : *v) s += fmt::format(" {}", x);
    s += " )";
  }
  return s;
}

Shape ResultShape(const Attrs& attrs, const Shape& x, const Shape& w) {
  ValueInfo in[2], out[1];
  in[0] = ValueInfo{DType::kBF16, true, false, x, nullptr, {}};
  in[1] = ValueInfo{DType::kBF16, true, false, w, nullptr, {}};
  out[0].present = true;
  EXPECT_TRUE(InferShapes("FusedConv", {attrs, in, out}).ok());
  return out[0].shape.ToShape().value_or(Shape{0});
}

void Check(const Case& c, std::mt19937& rng) {
  int64_t depth = c.c / c.group;
  for (int64_t k : c.kernel) depth *= k;
  Attrs attrs;
  attrs.Set("group", c.group);
  if (!c.stride.empty()) attrs.Set("strides", c.stride);
  if (!c.dilation.empty()) attrs.Set("dilations", c.dilation);
  if (!c.pads.empty()) attrs.Set("pads", c.pads);
  Shape w_shape{c.oc, c.c / c.group};
  for (int64_t k : c.kernel) w_shape.push_back(k);
  const Tensor w = Random(w_shape, rng);
  for (const char* layout : {"NHWC", "NCHW"}) {
    attrs.Set("data_layout", std::string(layout));
    const bool nhwc = layout == std::string("NHWC");
    Shape x{c.n};
    if (!nhwc) x.push_back(c.c);
    for (int64_t d : c.in) x.push_back(d);
    if (nhwc) x.push_back(c.c);
    const Shape y = ResultShape(attrs, x, w.shape());
    attrs.Set("activation", std::string("HardSwish"));
    CheckBf16Rows("FusedConv", attrs, {Random(x, rng), w, Random({c.oc}, rng), Random(y, rng)}, depth, Text(c) + layout);
    for (const char* activation : {"Relu", "Sigmoid"}) {
      attrs.Set("activation", std::string(activation));
      CheckBf16Rows("FusedConv", attrs, {Random(x, rng), w}, depth, Text(c) + layout + activation);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ConvBf16, Windows) {
  std::mt19937 rng(1);
  const Case cases[] = {
      {1, 32, 24, 1, {9, 11}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {2, 3, 16, 1, {13, 30}, {3, 3}, {2, 2}, {}, {1, 1, 1, 1}},
      {1, 3, 70, 1, {20, 21}, {7, 7}, {2, 2}, {}, {3, 3, 3, 3}},
      {1, 12, 33, 1, {7, 7}, {5, 5}, {1, 1}, {}, {2, 2, 2, 2}},
      {1, 9, 17, 1, {12, 10}, {3, 2}, {2, 1}, {1, 3}, {0, 1, 2, 3}},
      {3, 32, 40, 1, {5, 6}, {1, 1}, {1, 1}, {}, {}},
      {3, 20, 40, 1, {5, 6}, {1, 1}, {1, 1}, {}, {}},
      {1, 64, 40, 1, {9, 9}, {1, 1}, {2, 2}, {}, {}},
      {1, 10, 8, 1, {4, 4}, {1, 1}, {1, 1}, {}, {1, 1, 1, 1}},
      {1, 4, 6, 1, {2, 2}, {3, 3}, {1, 1}, {}, {4, 4, 4, 4}},
      {1, 1, 1, 1, {6, 6}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {1, 64, 13, 1, {4, 40}, {1, 3}, {1, 1}, {}, {0, 1, 0, 1}},
      {1, 64, 32, 1, {14, 14}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {1, 32, 17, 1, {30, 30}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {2, 32, 17, 1, {20, 17}, {3, 3}, {1, 1}, {}, {0, 1, 1, 0}},
      {2, 32, 16, 1, {20, 17}, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}},
  };
  for (const Case& c : cases) {
    Check(c, rng);
    if (HasFailure()) return;
  }
}

TEST(ConvBf16, Groups) {
  std::mt19937 rng(2);
  const Case cases[] = {
      {1, 8, 12, 4, {7, 9}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {2, 64, 64, 2, {6, 6}, {3, 3}, {2, 2}, {}, {1, 1, 1, 1}},
      {1, 64, 64, 2, {6, 6}, {1, 1}, {1, 1}, {}, {}},
      {1, 6, 12, 6, {8, 8}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
  };
  for (const Case& c : cases) Check(c, rng);
}

TEST(ConvBf16, Depthwise) {
  std::mt19937 rng(6);
  const auto case_of = [](int64_t c, int64_t k, int64_t s, int64_t d, int64_t p, int64_t h, int64_t w) {
    return Case{1, c, c, c, {h, w}, {k, k}, {s, s}, {d, d}, {p, p, p, p}};
  };
  for (int64_t k : {3, 5}) {
    for (int64_t s : {1, 2}) Check(case_of(15 + 6 * k + s, k, s, 1, k / 2, 6, 7 + 9 * s), rng);
  }
  Check(case_of(19, 3, 1, 2, 2, 9, 12), rng);
  Check(case_of(37, 7, 1, 1, 3, 9, 12), rng);
  Check(case_of(5, 3, 1, 1, 4, 2, 2), rng);
  Check({2, 33, 33, 33, {30}, {5}, {2}, {}, {2, 2}}, rng);
}

TEST(ConvBf16, OneAndThreeAxes) {
  std::mt19937 rng(3);
  const Case cases[] = {
      {1, 1, 58, 1, {700}, {256}, {128}, {}, {32, 32}},
      {2, 20, 30, 1, {25}, {3}, {1}, {}, {1, 1}},
      {1, 12, 7, 1, {16}, {5}, {2}, {2}, {4, 3}},
      {1, 5, 9, 1, {5, 6, 7}, {3, 3, 3}, {1, 2, 1}, {}, {1, 1, 1, 1, 1, 1}},
      {1, 16, 18, 2, {4, 4, 13}, {2, 1, 3}, {2, 1, 2}, {1, 1, 2}, {0, 0, 2, 1, 0, 1}},
  };
  for (const Case& c : cases) Check(c, rng);
}

TEST(ConvBf16, EmptyBatchAndPlainConv) {
  std::mt19937 rng(5);
  CheckBf16Rows("Conv", {}, {Random({0, 3, 5, 5}, rng), Random({4, 3, 3, 3}, rng)}, 27, "no images");
  CheckBf16Rows("Conv", {}, {Random({2, 3, 5, 5}, rng), Random({4, 3, 3, 3}, rng), Random({4}, rng)}, 27, "plain");
}

TEST(ConvBf16, ReferenceOfTransposedTakesMixedTypes) {
  std::mt19937 rng(6);
  const Tensor x = Random({1, 4, 5, 5}, rng);
  const Tensor w = testing::As(Random({4, 3, 2, 2}, rng), DType::kBF16);
  Attrs attrs;
  attrs.Set("output_dtype", static_cast<int64_t>(DType::kBF16));
  auto mixed = testing::EvalRow("FusedConvTranspose", attrs, {x, w}, "", 1, true);
  ASSERT_TRUE(mixed.ok()) << mixed.status().message();
  EXPECT_EQ(mixed->dtype(), DType::kBF16);
  auto plain = testing::EvalRow("FusedConvTranspose", {}, {testing::As(x, DType::kBF16), w}, "", 1, true);
  ASSERT_TRUE(plain.ok());
  EXPECT_TRUE(SameTensor(mixed->view(), plain->view()));
}

}  // namespace
}  // namespace tenon::kernels::conv
