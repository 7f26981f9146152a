#include <gtest/gtest.h>

#include <limits>

#include "kernels/pool/pool.h"
#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

using Ints = std::vector<int64_t>;

struct Case {
  Shape shape;  // NCHW
  Ints kernel, strides, dilations, pads;
  bool ceil = false;
  std::string auto_pad = "NOTSET";
};

const Case kCases[] = {
    {{1, 3, 8, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
    {{2, 5, 17, 31}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {{1, 33, 13, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {{1, 2, 9, 70}, {5, 3}, {1, 2}, {1, 1}, {2, 0, 1, 1}, true},
    {{1, 64, 12, 12}, {3, 2}, {3, 3}, {2, 2}, {1, 1, 0, 0}, true},
    {{1, 17, 7, 7}, {7, 7}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 4, 6, 5}, {3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}, false, "SAME_UPPER"},
    {{1, 4, 6, 5}, {2, 4}, {1, 3}, {1, 1}, {0, 0, 0, 0}, false, "SAME_LOWER"},
    {{1, 4, 6, 5}, {2, 2}, {5, 5}, {1, 1}, {1, 1, 1, 1}, true},
    {{2, 3, 40}, {3}, {2}, {1}, {1, 0}, true},
    {{1, 2, 5, 6, 7}, {2, 3, 2}, {1, 2, 2}, {1, 1, 2}, {0, 1, 1, 1, 1, 0}},
    {{0, 3, 8, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
    {{1, 1, 1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 100, 5, 5}, {3, 3}, {2, 1}, {1, 1}, {1, 1, 1, 1}},
};

Attrs AttrsOf(const Case& c) {
  Attrs attrs;
  attrs.Set("kernel_shape", c.kernel);
  attrs.Set("strides", c.strides);
  attrs.Set("dilations", c.dilations);
  attrs.Set("pads", c.pads);
  attrs.Set("ceil_mode", int64_t{c.ceil});
  attrs.Set("auto_pad", c.auto_pad);
  return attrs;
}

Shape ToNhwc(const Shape& s) {
  Shape t{s[0]};
  for (int i = 2; i < s.rank(); ++i) t.push_back(s[i]);
  t.push_back(s[1]);
  return t;
}

// [a, b, c] <-> [a, c, b]
Tensor Swapped(const Tensor& t, int64_t a, int64_t b, int64_t c, const Shape& shape) {
  std::vector<float> v(static_cast<size_t>(a * b * c));
  for (int64_t i = 0; i < a * b * c; ++i) {
    v[static_cast<size_t>(i / (b * c) * b * c + i % c * b + i / c % b)] = t.Data<float>()[i];
  }
  return Tensor::FromVector(shape, v);
}

TEST(Pool, RowsMatchReference) {
  uint32_t seed = 0;
  for (const Case& c : kCases) {
    const Tensor x = RandomF32(c.shape, ++seed);
    Attrs attrs = AttrsOf(c);
    EXPECT_EQ(CheckRows("MaxPool", attrs, {x}, 1, 0, 0), 2) << c.shape.ToString();
    for (int64_t include : {0, 1}) {
      attrs.Set("count_include_pad", include);
      EXPECT_EQ(CheckRows("AveragePool", attrs, {x}, 1, 1e-5, 1e-6), 2) << c.shape.ToString();
    }
    if (c.kernel.size() > 2) continue;
    attrs.Set("data_layout", std::string("NHWC"));
    const Tensor t = RandomF32(ToNhwc(c.shape), ++seed);
    EXPECT_EQ(CheckRows("MaxPool", attrs, {t}, 1, 0, 0), 2);
    EXPECT_EQ(CheckRows("AveragePool", attrs, {t}, 1, 1e-5, 1e-6), 2);
  }
}

TEST(Pool, LayoutsAgree) {
  const Case& c = kCases[1];
  const Tensor x = RandomF32(c.shape, 3);
  Attrs attrs = AttrsOf(c);
  const int64_t plane = c.shape[2] * c.shape[3];
  for (const char* op : {"MaxPool", "AveragePool"}) {
    auto y = Eval(op, attrs, {x}, 1, "reference");
    Attrs nhwc = attrs;
    nhwc.Set("data_layout", std::string("NHWC"));
    auto z = Eval(op, nhwc, {Swapped(x, c.shape[0], c.shape[1], plane, ToNhwc(c.shape))}, 1, "reference");
    ASSERT_TRUE(y.ok() && z.ok());
    const Shape& s = (*y)[0].shape();
    ExpectClose((*z)[0], Swapped((*y)[0], s[0], s[1], s[2] * s[3], ToNhwc(s)), 0, 0, op);
  }
}

TEST(Pool, GlobalRowsMatchReference) {
  for (const Shape& s :
       {Shape{1, 3, 7, 7}, {2, 96, 5, 9}, {1, 5, 300}, {2, 3, 4, 5, 6}, {1, 4}, {1, 2, 400, 400}, {0, 3, 2, 2}}) {
    for (const char* layout : {"NCHW", "NHWC"}) {
      Attrs attrs;
      attrs.Set("data_layout", std::string(layout));
      for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) {
        EXPECT_EQ(CheckRows(op, attrs, {RandomF32(s, 1)}, 1, 1e-5, 1e-6), 2);
      }
    }
  }
}

TEST(Pool, BytesChannelsLast) {
  for (DType t : {DType::kU8, DType::kI8}) {
    for (int64_t c : {1, 15, 16, 67}) {
      Tensor x = *Tensor::Allocate(t, {2, 9, 7, c});
      for (int64_t i = 0; i < x.shape().num_elements(); ++i) x.MutableData<uint8_t>()[i] = static_cast<uint8_t>(i * 89 + i / 7);
      Attrs attrs;
      attrs.Set("data_layout", std::string("NHWC"));
      attrs.Set("kernel_shape", std::vector<int64_t>{3, 2});
      attrs.Set("strides", std::vector<int64_t>{2, 1});
      attrs.Set("pads", std::vector<int64_t>{1, 1, 1, 0});
      EXPECT_EQ(CheckRows("MaxPool", attrs, {x}, 1, 0, 0), 1);
    }
  }
}

TEST(Pool, SymbolicExtents) {
  Attrs attrs = AttrsOf({{}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}});
  ValueInfo x, y;
  x.present = y.present = true;
  x.dtype = DType::kF32;
  x.shape = SymShape({Dim(1), Dim(3), Dim::Symbol("h"), Dim(2) * Dim::Symbol("w")});
  ASSERT_TRUE(InferShapes("MaxPool", {attrs, {&x, 1}, {&y, 1}}).ok());
  EXPECT_EQ(y.shape.ToString(), "[1,3,floor((h-1)/2)+1,floor((2*w-1)/2)+1]");
  attrs.Set("auto_pad", std::string("SAME_UPPER"));
  ASSERT_TRUE(InferShapes("MaxPool", {attrs, {&x, 1}, {&y, 1}}).ok());
  EXPECT_EQ(y.shape[3].ToString(), "w");
}

TEST(Pool, BadInputsAreErrors) {
  const Tensor x = RandomF32({1, 1, 4, 4}, 1);
  const auto code = [&](Ints kernel, Ints strides, Ints dilations, Ints pads) {
    return Eval("MaxPool", AttrsOf({{}, kernel, strides, dilations, pads}), {x}).status().code();
  };
  EXPECT_EQ(code({}, {}, {}, {}), Code::kBadInput);
  EXPECT_EQ(code({0, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}), Code::kBadInput);
  EXPECT_EQ(code({2, 2}, {0, 1}, {1, 1}, {0, 0, 0, 0}), Code::kBadInput);
  EXPECT_EQ(code({2, 2}, {1, 1}, {-1, 1}, {0, 0, 0, 0}), Code::kBadInput);
  EXPECT_EQ(code({2, 2}, {1, 1}, {1, 1}, {0, 0, 0, -1}), Code::kBadInput);
  EXPECT_EQ(code({2, 2}, {1, 1}, {1, 1}, {2, 0, 0, 0}), Code::kBadInput);
  EXPECT_EQ(code({5, 5}, {1, 1}, {1, 1}, {0, 0, 0, 0}), Code::kBadInput);
  EXPECT_EQ(code({2}, {1}, {1}, {0, 0}), Code::kBadInput);
  EXPECT_EQ(code({2, 2}, {1}, {1, 1}, {0, 0, 0, 0}), Code::kBadInput);
  EXPECT_EQ(code({int64_t{1} << 62, 2}, {1, 1}, {int64_t{1} << 62, 1}, {0, 0, 0, 0}), Code::kBadInput);
}

TEST(Pool, MaximaWithIndicesAgree) {
  for (const Shape& shape : {Shape{2, 3, 9}, Shape{1, 2, 7, 8}, Shape{1, 2, 4, 5, 6}, Shape{0, 2, 4, 4}}) {
    const auto spatial = static_cast<size_t>(shape.rank()) - 2;
    for (bool odd : {false, true}) {
      Tensor x = RandomF32(shape, 3);
      for (int64_t i = 0; i < shape.num_elements(); ++i) {
        float& v = x.MutableData<float>()[i];
        v = std::round(v * 2);  // ties
        if (odd && i % 5 == 0) v = i % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
      }
      for (int64_t order : {0, 1}) {
        for (int64_t dilation : {1, 2}) {
          Attrs attrs;
          attrs.Set("kernel_shape", std::vector<int64_t>(spatial, 2));
          attrs.Set("strides", std::vector<int64_t>(spatial, 2));
          attrs.Set("dilations", std::vector<int64_t>(spatial, dilation));
          attrs.Set("pads", std::vector<int64_t>(2 * spatial, 1));
          attrs.Set("storage_order", order);
          EXPECT_EQ(CheckRows("MaxPool", attrs, {x}, 2, 0, 0), 1);
        }
      }
    }
  }
}

TEST(Pool, UnpoolChecksItsIndices) {
  Attrs attrs;
  attrs.Set("kernel_shape", Ints{2, 2});
  attrs.Set("strides", Ints{2, 2});
  const Tensor x = RandomF32({1, 1, 2, 2}, 1);
  for (int64_t bad : {int64_t{-1}, int64_t{16}, std::numeric_limits<int64_t>::max()}) {
    const Tensor i = Tensor::FromVector<int64_t>({1, 1, 2, 2}, {0, 1, 2, bad});
    EXPECT_EQ(Eval("MaxUnpool", attrs, {x, i}).status().code(), Code::kBadInput);
  }
}

TEST(Pool, RoiAlignRowsAgree) {
  const Tensor x = RandomF32({2, 3, 9, 20}, 5), batch = Tensor::FromVector<int64_t>({6}, {0, 1, 1, 0, 0, 1});
  // Inside, over the edges, wholly outside, empty, upside down, one pixel.
  const Tensor rois = Tensor::FromVector<float>(
      {6, 4}, {1, 1, 17.3f, 7.7f, -9, -3, 30, 14, 40, 40, 60, 50, 5, 5, 5, 5, 12, 8, 3, 1, 19, 8, 20, 9});
  for (const char* transform : {"half_pixel", "output_half_pixel"}) {
    for (int64_t ratio : {0, 1, 3}) {
      for (float scale : {1.0f, 0.37f}) {
        Attrs attrs;
        attrs.Set("output_height", int64_t{3});
        attrs.Set("output_width", int64_t{5});
        attrs.Set("sampling_ratio", ratio);
        attrs.Set("spatial_scale", scale);
        attrs.Set("coordinate_transformation_mode", std::string(transform));
        EXPECT_EQ(CheckRows("RoiAlign", attrs, {x, rois, batch}, 1, 1e-5, 1e-5), 2);
        attrs.Set("mode", std::string("max"));
        EXPECT_EQ(CheckRows("RoiAlign", attrs, {x, rois, batch}, 1, 1e-5, 1e-5), 1);
      }
    }
  }
}

TEST(Pool, RoiAlignRefusesAbsurdRegions) {
  Attrs attrs;
  attrs.Set("output_height", int64_t{2});
  attrs.Set("output_width", int64_t{2});
  const Tensor x = RandomF32({1, 1, 4, 4}, 1), batch = Tensor::FromVector<int64_t>({1}, {0});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {1e30f, nan, std::numeric_limits<float>::infinity()}) {
    const Tensor rois = Tensor::FromVector<float>({1, 4}, {0, 0, bad, 2});
    EXPECT_EQ(Eval("RoiAlign", attrs, {x, rois, batch}).status().code(), Code::kBadInput);
  }
  const Tensor rois = Tensor::FromVector<float>({1, 4}, {0, 0, 1, 2});
  EXPECT_EQ(Eval("RoiAlign", attrs, {x, rois, Tensor::FromVector<int64_t>({1}, {1})}).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels
