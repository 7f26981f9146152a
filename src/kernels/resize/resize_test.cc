#include "kernels/resize/resize.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

Tensor F(Floats v) {
  return Tensor::FromVector(Shape{static_cast<int64_t>(v.size())}, v);
}
Tensor I(Ints v) {
  return Tensor::FromVector(Shape{static_cast<int64_t>(v.size())}, v);
}

Attrs With(const std::string& mode, const std::string& transform = "half_pixel") {
  Attrs attrs;
  attrs.Set("mode", mode);
  attrs.Set("coordinate_transformation_mode", transform);
  return attrs;
}

TEST(Resize, RowsMatchReference) {
  const char* const transforms[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                    "align_corners", "asymmetric",           "tf_crop_and_resize"};
  const Tensor roi = F({0, 0, 0.1f, 0.2f, 1, 1, 0.9f, 0.8f});
  uint32_t seed = 0;
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* transform : transforms) {
      for (const auto& [h, w] : {std::pair{2.0f, 2.0f}, {4.0f, 8.0f}, {1.0f, 2.5f}, {0.5f, 0.4f}, {3.0f, 1.0f}, {0.2f, 0.2f}}) {
        Attrs attrs = With(mode, transform);
        attrs.Set("nearest_mode", std::string(seed % 2 == 0 ? "floor" : "round_prefer_ceil"));
        const Tensor x = RandomF32({2, 3, 7, 19}, ++seed);
        EXPECT_EQ(CheckRows("Resize", attrs, {x, roi, F({1, 1, h, w})}, 1, 1e-5, 1e-5), 2);
        const Tensor last = RandomF32({2, 7, 19, 5}, ++seed);  // channels last by the order of scales
        EXPECT_EQ(CheckRows("Resize", attrs, {last, F({0, 0.1f, 0.2f, 0, 1, 0.9f, 0.8f, 1}), F({1, h, w, 1})}, 1, 1e-5, 1e-5), 2);
        attrs.Set("data_layout", std::string("NHWC"));
        const Tensor t = RandomF32({2, 7, 19, 5}, ++seed);
        EXPECT_EQ(CheckRows("Resize", attrs, {t, roi, F({1, 1, h, w})}, 1, 1e-5, 1e-5), 2);
      }
    }
  }
  for (const Shape& s : {Shape{9}, {3, 11}, {1, 2, 3, 4, 5}, {0, 2, 3, 4}, {1, 1, 5, 40}}) {
    Floats scales(static_cast<size_t>(s.rank()), 1.0f);
    scales.back() = 2;
    EXPECT_EQ(CheckRows("Resize", With("linear"), {RandomF32(s, ++seed), Tensor(), F(scales)}, 1, 1e-5, 1e-5), 2);
    EXPECT_EQ(CheckRows("Resize", With("nearest"), {RandomF32(s, ++seed), Tensor(), F(scales)}, 1, 0, 0), 2);
    scales.front() = 2;  // two axes that are not neighbours
    EXPECT_EQ(CheckRows("Resize", With("linear"), {RandomF32(s, ++seed), Tensor(), F(scales)}, 1, 1e-5, 1e-5), 2);
  }
}

TEST(Resize, NearestMovesAnyType) {
  for (DType type :
       {DType::kBF16, DType::kF16, DType::kF64, DType::kU8, DType::kI64, DType::kBool, DType::kC128, DType::kString}) {
    for (const auto& [h, w] : {std::pair{2.0f, 2.0f}, {4.0f, 1.0f}, {1.0f, 2.5f}, {0.5f, 0.4f}}) {
      for (bool last : {false, true}) {
        Tensor x = *Tensor::Zeros(type, last ? Shape{2, 7, 19, 5} : Shape{2, 3, 7, 19});
        for (int64_t i = 0; i < x.shape().num_elements(); ++i) {
          if (type == DType::kString) {
            x.MutableData<std::string>()[i] = std::to_string(i);
          } else {
            x.MutableData<uint8_t>()[i * (DTypeBits(type) / 8)] = static_cast<uint8_t>(type == DType::kBool ? i % 2 : i % 251);
          }
        }
        const Tensor scales = last ? F({1, h, w, 1}) : F({1, 1, h, w});
        EXPECT_GE(CheckRows("Resize", With("nearest"), {x, Tensor(), scales}, 1, 0, 0), 1) << DTypeName(type);
      }
    }
  }
}

TEST(Resize, AntialiasAndSizes) {
  uint32_t seed = 300;
  for (const char* mode : {"linear", "cubic"}) {
    for (int64_t exclude : {0, 1}) {
      Attrs attrs = With(mode);
      attrs.Set("antialias", int64_t{1});
      attrs.Set("exclude_outside", exclude);
      EXPECT_EQ(
          CheckRows("Resize", attrs, {RandomF32({1, 2, 33, 40}, ++seed), Tensor(), Tensor(), I({1, 2, 10, 7})}, 1, 1e-5, 1e-5),
          2);
      attrs.Set("axes", Ints{3, -2});
      EXPECT_EQ(CheckRows("Resize", attrs, {RandomF32({1, 2, 33, 40}, ++seed), F({}), F({}), I({50, 7})}, 1, 1e-5, 1e-5), 2);
    }
  }
}

TEST(Resize, FlippedRegion) {
  const Tensor roi = F({0, 0, 0.9f, 0.95f, 1, 1, 0.1f, 0.05f});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const Tensor x = RandomF32({1, 2, 20, 40}, 5);
    EXPECT_EQ(CheckRows("Resize", With(mode, "tf_crop_and_resize"), {x, roi, Tensor(), I({1, 2, 30, 70})}, 1, 1e-5, 1e-5), 2);
  }
}

// Field case N01: integers are rounded half to even, not truncated.
TEST(Resize, N01LinearInt8Rounds) {
  const Tensor x = Tensor::FromVector<int8_t>({1, 1, 1, 3}, {2, 7, 4});
  auto y = Eval("Resize", With("linear"), {x, Tensor(), Tensor(), I({1, 1, 1, 6})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  ExpectClose((*y)[0], Tensor::FromVector<int8_t>({1, 1, 1, 6}, {2, 3, 6, 6, 5, 4}), 0, 0, "N01");
}

// Field case N03: the value of ONNX's reference evaluator (it samples at -0.5, clamped).
TEST(Resize, N03CubicDownToOnePixel) {
  Floats v;
  for (int i = 1; i <= 16; ++i) v.push_back(static_cast<float>(i));
  const Tensor x = Tensor::FromVector(Shape{1, 1, 4, 4}, v);
  for (const char* row : {"reference", ""}) {
    auto y = Eval("Resize", With("cubic", "pytorch_half_pixel"), {x, Tensor(), Tensor(), I({1, 1, 1, 1})}, 1, row);
    ASSERT_TRUE(y.ok()) << y.status().message();
    EXPECT_NEAR((*y)[0].Data<float>()[0], 0.53125f, 1e-5);
  }
}

// Field case N04: with scales, the region counts in the output extent.
TEST(Resize, N04CropAndResizeScalesTheRegion) {
  const Tensor x = RandomF32({1, 1, 10, 20}, 1), roi = F({0, 0, 0.25f, 0.25f, 1, 1, 0.75f, 0.75f});
  auto y = Eval("Resize", With("linear", "tf_crop_and_resize"), {x, roi, F({1, 1, 2, 3})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ((*y)[0].shape(), (Shape{1, 1, 10, 30}));
}

TEST(Resize, SymbolicExtents) {
  ValueInfo in[3], y;
  const Tensor scales = F({1, 1, 2, 0.5f});
  const View data = scales.view();
  in[0].present = in[2].present = y.present = true;
  in[0].dtype = in[2].dtype = DType::kF32;
  in[0].shape = SymShape({Dim::Symbol("n"), Dim(3), Dim::Symbol("h"), Dim::Symbol("w")});
  in[2].shape = scales.shape();
  in[2].data = &data;
  ASSERT_TRUE(InferShapes("Resize", {With("nearest"), in, {&y, 1}}).ok());
  EXPECT_EQ(y.shape.ToString(), "[n,3,2*h,floor(w/2)]");
}

TEST(Resize, BadInputsAreErrors) {
  const Tensor x = RandomF32({1, 1, 4, 4}, 1);
  const auto code = [&](const Attrs& attrs, std::vector<Tensor> in) { return Eval("Resize", attrs, in).status().code(); };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(code(With("linear"), {x}), Code::kBadInput);
  EXPECT_EQ(code(With("linear"), {x, Tensor(), F({1, 1, 0, 2})}), Code::kBadInput);
  EXPECT_EQ(code(With("linear"), {x, Tensor(), F({1, 1, nan, 2})}), Code::kBadInput);
  EXPECT_EQ(code(With("linear"), {x, Tensor(), F({1, 1, 2})}), Code::kBadInput);
  EXPECT_EQ(code(With("linear"), {x, Tensor(), Tensor(), I({1, 1, -1, 2})}), Code::kBadInput);
  EXPECT_EQ(code(With("linear"), {x, Tensor(), F({1, 1, 2, 2}), I({1, 1, 8, 8})}), Code::kBadInput);
  EXPECT_EQ(code(With("spline"), {x, Tensor(), F({1, 1, 2, 2})}), Code::kBadInput);
  EXPECT_EQ(code(With("linear", "tf_crop_and_resize"), {x, Tensor(), F({1, 1, 2, 2})}), Code::kBadInput);
  EXPECT_EQ(code(With("linear"), {RandomF32({1, 1, 0, 4}, 1), Tensor(), Tensor(), I({1, 1, 8, 8})}), Code::kBadInput);
  EXPECT_NE(code(With("linear"), {x, Tensor(), Tensor(), I({int64_t{1} << 30, int64_t{1} << 30, 8, 8})}), Code::kOk);
}

TEST(GridSample, OddGridsStayInside) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = RandomF32({1, 2, 3, 1}, 1);
  const Tensor grid = Tensor::FromVector<float>({1, 1, 4, 2}, {inf, 0, nan, -inf, 1e30f, -1e30f, 1, 1});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (int64_t align : {0, 1}) {
        Attrs attrs;
        attrs.Set("mode", std::string(mode));
        attrs.Set("padding_mode", std::string(padding));
        attrs.Set("align_corners", align);
        EXPECT_TRUE(Eval("GridSample", attrs, {x, grid}).ok());
        EXPECT_EQ(CheckRows("GridSample", attrs, {x, grid}, 1, 1e-5, 1e-5), 2);
      }
    }
  }
}

TEST(GridSample, RowsAgreeAndZeroWeightsReadNothing) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (int64_t align : {0, 1}) {
        Attrs attrs;
        attrs.Set("mode", std::string(mode));
        attrs.Set("padding_mode", std::string(padding));
        attrs.Set("align_corners", align);
        for (int64_t points : {1, 9, 127, 129, 300}) {
          const Tensor grid = RandomF32({2, 1, points, 2}, static_cast<uint32_t>(points), -1.6f, 1.6f);
          EXPECT_EQ(CheckRows("GridSample", attrs, {RandomF32({2, 3, 7, 5}, 4), grid}, 1, 1e-5, 1e-5), 2);
        }
        Tensor x = RandomF32({1, 1, 4, 4}, 2);
        x.MutableData<float>()[0] = std::numeric_limits<float>::infinity();
        const Tensor far = RandomF32({1, 5, 5, 2}, 3, 0.3f, 3);
        EXPECT_EQ(CheckRows("GridSample", attrs, {x, far}, 1, 1e-5, 1e-5), 2);
      }
    }
  }
}

}  // namespace
}  // namespace tenon::kernels
