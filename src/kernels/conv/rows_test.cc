// Every f32 row of the convolution family against the reference, on edge and random shapes, in both layouts.
#include "kernels/conv/conv.h"
#include "kernels/gemm/testing.h"

namespace tenon::kernels::conv {
namespace {

using testing::CheckRows;
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

Shape WithSpatial(int64_t a, int64_t b, const std::vector<int64_t>& spatial) {
  Shape s{a, b};
  for (int64_t d : spatial) s.push_back(d);
  return s;
}

Shape ResultShape(const Attrs& attrs, const Shape& x, const Shape& w, std::string_view op = "FusedConv") {
  ValueInfo in[2], out[1];
  in[0] = ValueInfo{DType::kF32, true, false, x, nullptr, {}};
  in[1] = ValueInfo{DType::kF32, true, false, w, nullptr, {}};
  out[0].present = true;
  EXPECT_TRUE(InferShapes(op, {attrs, in, out}).ok());
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
  const Tensor w = Random(WithSpatial(c.oc, c.c / c.group, c.kernel), rng);
  CheckRows("Conv", attrs, {Random(WithSpatial(c.n, c.c, c.in), rng), w, Random({c.oc}, rng)}, depth, Text(c));
  attrs.Set("activation", std::string("HardSwish"));
  for (const char* layout : {"NCHW", "NHWC"}) {
    attrs.Set("data_layout", std::string(layout));
    const bool nhwc = layout == std::string("NHWC");
    Shape x{c.n};
    if (!nhwc) x.push_back(c.c);
    for (int64_t d : c.in) x.push_back(d);
    if (nhwc) x.push_back(c.c);
    const Shape y = ResultShape(attrs, x, w.shape());
    CheckRows("FusedConv", attrs, {Random(x, rng), w, Random({c.oc}, rng), Random(y, rng)}, depth, Text(c) + layout);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ConvRows, Windows) {
  std::mt19937 rng(1);
  const Case cases[] = {
      {1, 16, 24, 1, {9, 11}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {2, 3, 16, 1, {13, 30}, {3, 3}, {2, 2}, {}, {1, 1, 1, 1}},
      {1, 3, 70, 1, {20, 21}, {7, 7}, {2, 2}, {}, {3, 3, 3, 3}},
      {1, 12, 33, 1, {7, 7}, {5, 5}, {1, 1}, {}, {2, 2, 2, 2}},
      {1, 9, 17, 1, {10, 12}, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}},
      {1, 9, 17, 1, {12, 10}, {3, 2}, {2, 1}, {1, 3}, {0, 1, 2, 3}},
      {3, 20, 40, 1, {5, 6}, {1, 1}, {1, 1}, {}, {}},
      {1, 20, 40, 1, {9, 9}, {1, 1}, {2, 2}, {}, {}},
      {1, 10, 8, 1, {4, 4}, {1, 1}, {1, 1}, {}, {1, 1, 1, 1}},
      {1, 4, 6, 1, {3, 3}, {3, 3}, {1, 1}, {}, {}},
      {1, 4, 6, 1, {2, 2}, {3, 3}, {1, 1}, {}, {4, 4, 4, 4}},
      {1, 1, 1, 1, {6, 6}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {1, 60, 13, 1, {4, 40}, {1, 3}, {1, 1}, {}, {0, 1, 0, 1}},
  };
  for (const Case& c : cases) Check(c, rng);
}

TEST(ConvRows, Groups) {
  std::mt19937 rng(2);
  const Case cases[] = {
      {1, 8, 12, 4, {7, 9}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {2, 32, 32, 2, {6, 6}, {3, 3}, {2, 2}, {}, {1, 1, 1, 1}},
      {1, 6, 12, 6, {8, 8}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {1, 24, 24, 3, {5, 5}, {1, 1}, {1, 1}, {}, {}},
  };
  for (const Case& c : cases) Check(c, rng);
}

TEST(ConvRows, Depthwise) {
  std::mt19937 rng(6);
  const auto case_of = [](int64_t c, int64_t k, int64_t s, int64_t d, int64_t p, int64_t h, int64_t w) {
    return Case{1, c, c, c, {h, w}, {k, k}, {s, s}, {d, d}, {p, p, p, p}};
  };
  for (int64_t k : {3, 5}) {
    for (int64_t s : {1, 2}) {
      for (int64_t w : {5, 9, 16, 23}) Check(case_of(8 + w, k, s, 1, k / 2, 6, w), rng);
    }
  }
  Check(case_of(19, 3, 1, 2, 2, 9, 12), rng);
  Check(case_of(37, 7, 1, 1, 3, 9, 12), rng);
  Check(case_of(16, 3, 3, 1, 0, 9, 12), rng);
  Check(case_of(4, 2, 1, 1, 1, 3, 3), rng);
  Check(case_of(5, 3, 1, 1, 4, 2, 2), rng);
  Check({2, 33, 33, 33, {30}, {5}, {2}, {}, {2, 2}}, rng);
  Check({2, 20, 20, 20, {3, 6, 7}, {1, 3, 3}, {2, 1, 1}, {}, {1, 1, 1, 0, 1, 1}}, rng);
}

TEST(ConvRows, Winograd) {
  std::mt19937 rng(8);
  const Case cases[] = {
      {1, 16, 16, 1, {24, 24}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {2, 37, 24, 1, {21, 26}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
      {1, 20, 50, 1, {23, 30}, {3, 3}, {1, 1}, {}, {0, 2, 3, 0}},
      {1, 128, 128, 1, {20, 20}, {3, 3}, {1, 1}, {}, {1, 1, 1, 1}},
  };
  for (const Case& c : cases) Check(c, rng);
}

TEST(ConvRows, OneAndThreeAxes) {
  std::mt19937 rng(3);
  const Case cases[] = {
      {1, 1, 258, 1, {700}, {256}, {128}, {}, {32, 32}},
      {2, 20, 30, 1, {25}, {3}, {1}, {}, {1, 1}},
      {1, 12, 7, 1, {16}, {5}, {2}, {2}, {4, 3}},
      {1, 5, 9, 1, {5, 6, 7}, {3, 3, 3}, {1, 2, 1}, {}, {1, 1, 1, 1, 1, 1}},
      {1, 16, 18, 2, {4, 4, 13}, {2, 1, 3}, {2, 1, 2}, {1, 1, 2}, {0, 0, 2, 1, 0, 1}},
  };
  for (const Case& c : cases) Check(c, rng);
}

TEST(ConvRows, RandomShapes) {
  std::mt19937 rng(4);
  const auto pick = [&](int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(rng); };
  for (int i = 0; i < 20; ++i) {
    Case c{pick(1, 2), 0, 0, pick(1, 3), {}, {}, {}, {}, {}};
    c.c = c.group * pick(1, 20);
    c.oc = c.group * pick(1, 40);
    c.pads.resize(4);
    for (int a = 0; a < 2; ++a) {
      c.kernel.push_back(pick(1, 4));
      c.stride.push_back(pick(1, 3));
      c.dilation.push_back(pick(1, 2));
      c.pads[static_cast<size_t>(a)] = pick(0, 3);
      c.pads[static_cast<size_t>(a + 2)] = pick(0, 3);
      c.in.push_back(pick(7, 14));
    }
    SCOPED_TRACE(i);
    Check(c, rng);
    if (HasFailure()) return;
  }
}

void CheckTransposed(const Case& c, std::mt19937& rng, std::vector<int64_t> output_padding = {}) {
  int64_t depth = c.c / c.group;
  for (int64_t k : c.kernel) depth *= k;
  Attrs attrs;
  attrs.Set("group", c.group);
  if (!c.stride.empty()) attrs.Set("strides", c.stride);
  if (!c.dilation.empty()) attrs.Set("dilations", c.dilation);
  if (!c.pads.empty()) attrs.Set("pads", c.pads);
  if (!output_padding.empty()) attrs.Set("output_padding", output_padding);
  const Tensor w = Random(WithSpatial(c.c, c.oc / c.group, c.kernel), rng);
  CheckRows("ConvTranspose", attrs, {Random(WithSpatial(c.n, c.c, c.in), rng), w, Random({c.oc}, rng)}, depth, Text(c));
  attrs.Set("activation", std::string("Relu"));
  for (const char* layout : {"NCHW", "NHWC"}) {
    attrs.Set("data_layout", std::string(layout));
    const bool nhwc = layout == std::string("NHWC");
    Shape x{c.n};
    if (!nhwc) x.push_back(c.c);
    for (int64_t d : c.in) x.push_back(d);
    if (nhwc) x.push_back(c.c);
    const Shape y = ResultShape(attrs, x, w.shape(), "FusedConvTranspose");
    CheckRows("FusedConvTranspose", attrs, {Random(x, rng), w, Tensor(), Random(y, rng)}, depth, Text(c) + layout);
    CheckRows("FusedConvTranspose", attrs, {Random(x, rng), w, Random({c.oc}, rng)}, depth, Text(c) + layout);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ConvTransposeRows, Windows) {
  std::mt19937 rng(7);
  const Case cases[] = {
      {1, 24, 24, 1, {7, 9}, {2, 2}, {2, 2}, {}, {}},
      {2, 24, 1, 1, {5, 6}, {2, 2}, {2, 2}, {}, {}},
      {1, 10, 17, 1, {6, 7}, {3, 3}, {2, 2}, {}, {1, 1, 1, 1}},
      {1, 10, 17, 1, {6, 7}, {4, 4}, {2, 2}, {}, {1, 1, 1, 1}},
      {1, 8, 6, 2, {5, 4}, {3, 2}, {1, 3}, {2, 1}, {1, 0, 0, 2}},
      {1, 6, 6, 6, {5, 4}, {3, 3}, {2, 2}, {}, {1, 1, 1, 1}},
      {1, 5, 7, 1, {9}, {3}, {4}, {}, {}},
      {1, 3, 4, 1, {3, 4, 3}, {2, 3, 2}, {2, 1, 2}, {}, {0, 1, 0, 0, 1, 0}},
      {1, 9, 5, 1, {6, 5}, {2, 2}, {2, 2}, {}, {1, 1, 0, 1}},
  };
  for (const Case& c : cases) CheckTransposed(c, rng);
  CheckTransposed({1, 10, 17, 1, {6, 7}, {3, 3}, {2, 2}, {}, {1, 1, 1, 1}}, rng, {1, 1});
  CheckTransposed({1, 4, 4, 1, {3, 3}, {2, 2}, {2, 2}, {}, {}}, rng, {1, 1});
}

TEST(ConvRows, EmptyBatch) {
  std::mt19937 rng(5);
  CheckRows("Conv", {}, {Random({0, 3, 5, 5}, rng), Random({4, 3, 3, 3}, rng)}, 27, "no images");
}

}  // namespace
}  // namespace tenon::kernels::conv
