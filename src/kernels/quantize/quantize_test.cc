// Quantisation: ONNX's own cases, rounding, exact integer sums on every instruction set, hostile shapes.
#include "kernels/quantize/quantize.h"

#include <cmath>
#include <random>
#include <tuple>

#include "kernels/golden_test_util.h"
#include "kernels/row_check.h"

namespace tenon::kernels::quantize {
namespace {

TEST(Quantize, OnnxNodeCases) {
  testing::RunGoldens("quantize.golden", 20);
}

// Field case N19: a path that adds byte products in 16 bits answers 32767.
TEST(Quantize, N19SumsAreExactOnEveryIsa) {
  const Tensor a = Tensor::FromVector<uint8_t>({1, 2}, {255, 255});
  const Tensor b = Tensor::FromVector<int8_t>({2, 1}, {127, 127});
  hw::Team team(1);
  const auto views = Views({a, b});
  int served = 0;
  for (const char* level : {"baseline", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"}) {
    const auto isa = hw::IsaFromLevel(level);
    if (!isa.ok() || !hw::Covers(hw::DetectIsa(), *isa)) continue;
    for (const Row& row : FindOp("MatMulInteger")->rows) {
      const auto y = Evaluate("MatMulInteger", {}, views, 1, *isa, team, row.name);
      if (!y.ok()) continue;
      ++served;
      EXPECT_EQ((*y)[0].Data<int32_t>()[0], 64770) << level << " " << row.name;
    }
  }
  EXPECT_GE(served, hw::Covers(hw::DetectIsa(), hw::kAvx2) ? 3 : 1);
}

// Field case N20: negative weights survive dequantisation without a zero point.
TEST(Quantize, N20NegativeWeightsKeepTheirSign) {
  const Tensor x = Tensor::FromVector<int8_t>({4}, {12, -45, 7, -3});
  const auto y = Eval("DequantizeLinear", {}, {x, Tensor::Scalar(0.02f)});
  ASSERT_TRUE(y.ok()) << y.status().message();
  const float want[] = {0.24f, -0.9f, 0.14f, -0.06f};
  for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ((*y)[0].Data<float>()[i], want[i]);
}

TEST(Quantize, RoundsHalvesToEvenBeforeTheZeroPoint) {
  const Tensor x = Tensor::FromVector<float>({8}, {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 1e30f, -1e30f, NAN});
  const auto y = Eval("QuantizeLinear", {}, {x, Tensor::Scalar(1.0f), Tensor::Scalar<int8_t>(1)});
  ASSERT_TRUE(y.ok()) << y.status().message();
  const int8_t want[] = {1, 3, 3, 1, -1, 127, -128, 1};
  for (int i = 0; i < 8; ++i) EXPECT_EQ((*y)[0].Data<int8_t>()[i], want[i]) << i;
}

TEST(Quantize, DynamicRangeAlwaysHoldsZero) {
  const auto y = Eval("DynamicQuantizeLinear", {}, {Tensor::FromVector<float>({3}, {2, 3, 4})}, 3);
  ASSERT_TRUE(y.ok());
  EXPECT_FLOAT_EQ((*y)[1].Data<float>()[0], 4.0f / 255);
  EXPECT_EQ((*y)[2].Data<uint8_t>()[0], 0);
  const auto zero = Eval("DynamicQuantizeLinear", {}, {Tensor::FromVector<float>({2}, {0, 0})}, 3);
  ASSERT_TRUE(zero.ok());
  EXPECT_EQ((*zero)[0].Data<uint8_t>()[1], 0);
  EXPECT_GT((*zero)[1].Data<float>()[0], 0.0f);
}

Tensor Bytes(DType t, const Shape& shape, uint32_t seed) {
  std::mt19937 rng(seed);
  auto tensor = *Tensor::Allocate(t, shape);
  for (int64_t i = 0; i < shape.num_elements(); ++i) tensor.MutableData<uint8_t>()[i] = static_cast<uint8_t>(rng());
  return tensor;
}

TEST(Quantize, LinearRowsAgree) {
  for (DType t : {DType::kU8, DType::kI8}) {
    for (int64_t n : {1, 7, 16, 33, 100}) {
      Tensor x = RandomF32({3, n, 5}, static_cast<uint32_t>(n), -40, 40);
      x.MutableData<float>()[0] = NAN;
      x.MutableData<float>()[1] = INFINITY;
      x.MutableData<float>()[2] = -1e30f;
      const Tensor flat = x.Reshaped({15, n});
      const Tensor q = Bytes(t, {3, n, 5}, 3);
      const Tensor one_zero = Bytes(t, {}, 4);
      for (int axis : {0, 1, 2}) {
        Attrs attrs;
        attrs.Set("axis", int64_t{axis});
        const int64_t width = x.shape()[axis];
        const Tensor scale = RandomF32({width}, 5, 0.1f, 0.5f);
        EXPECT_GE(CheckRows("QuantizeLinear", attrs, {x, scale, Bytes(t, {width}, 6)}, 1, 0, 0), 1);
        EXPECT_GE(CheckRows("DequantizeLinear", attrs, {q, scale, Bytes(t, {width}, 6)}, 1, 0, 0), 1);
        EXPECT_GE(CheckRows("DequantizeLinear", attrs, {q, scale, Tensor()}, 1, 0, 0), 1);
      }
      EXPECT_GE(CheckRows("QuantizeLinear", {}, {x, Tensor::Scalar(0.25f), one_zero}, 1, 0, 0), 1);
      EXPECT_GE(CheckRows("DequantizeLinear", {}, {q, Tensor::Scalar(0.25f), one_zero}, 1, 0, 0), 1);
      EXPECT_GE(CheckRows("DynamicQuantizeLinear", {}, {RandomF32({n}, 8)}, 3, 0, 0), 1);
    }
  }
  EXPECT_GE(CheckRows("DynamicQuantizeLinear", {}, {RandomF32({100003}, 8, -3, 9)}, 3, 0, 0), 1);
}

TEST(Quantize, BlockRowsAgree) {
  for (DType t : {DType::kU8, DType::kI8, DType::kU4, DType::kI4, DType::kU2, DType::kI2}) {
    for (int64_t n : {1, 15, 16, 33, 67}) {
      const Tensor q = Bytes(DType::kU8, {3, n, 5}, 3);  // the packed types take the first of these bytes
      for (int axis : {1, 2}) {
        Attrs attrs;
        attrs.Set("axis", int64_t{axis});
        attrs.Set("block_size", int64_t{16});
        const Shape x = axis == 1 ? Shape{3, n, 5} : Shape{3, 5, n};
        const int64_t blocks = (n + 15) / 16;
        const Shape s = axis == 1 ? Shape{3, blocks, 5} : Shape{3, 5, blocks};
        const Tensor values(t, x, q.buffer()), zeros(t, s, Bytes(DType::kU8, s, 4).buffer());
        const Tensor scale = RandomF32(s, 5, 0.1f, 0.5f);
        EXPECT_GE(CheckRows("DequantizeLinear", attrs, {values, scale, zeros}, 1, 0, 0), 1);
        EXPECT_GE(CheckRows("DequantizeLinear", attrs, {values, scale, Tensor()}, 1, 0, 0), 1);
      }
    }
  }
}

TEST(Quantize, MatMulRowsAgree) {
  for (DType ta : {DType::kU8, DType::kI8}) {
    for (DType tb : {DType::kU8, DType::kI8}) {
      for (const auto& [m, k, n] : {std::tuple{1, 1, 1}, {1, 128, 512}, {7, 13, 65}, {12, 64, 64}, {33, 31, 130}}) {
        const Tensor a = Bytes(ta, {m, k}, 1), b = Bytes(tb, {k, n}, 2);
        const Tensor az = Bytes(ta, {m}, 3), bz = Bytes(tb, {n}, 4);
        EXPECT_GE(CheckRows("MatMulInteger", {}, {a, b}, 1, 0, 0), 1);
        EXPECT_GE(CheckRows("MatMulInteger", {}, {a, b, az, bz}, 1, 0, 0), 1);
        EXPECT_GE(CheckRows("MatMulInteger", {}, {a.Reshaped({1, m, k}), b, Bytes(ta, {}, 5), bz}, 1, 0, 0), 1);
        const float scale = 60.0f / static_cast<float>(k * 5000);
        EXPECT_GE(CheckRows("QLinearMatMul", {},
                            {a, Tensor::Scalar(0.5f), Bytes(ta, {}, 5), b, RandomF32({n}, 6, scale, 2 * scale), bz,
                             Tensor::Scalar(0.7f), Bytes(ta, {}, 7)},
                            1, 0, 0),
                  1);
      }
    }
  }
}

TEST(Quantize, ConvRowsAgree) {
  struct Case {
    Shape x, w;
    int64_t group, stride, dilation, pad;
  };
  const Case cases[] = {
      {{2, 3, 9, 8}, {5, 3, 3, 3}, 1, 1, 1, 1}, {{1, 8, 7, 7}, {70, 8, 1, 1}, 1, 1, 1, 0},
      {{1, 6, 8, 9}, {6, 1, 3, 3}, 6, 2, 1, 1}, {{1, 4, 11, 10}, {6, 2, 3, 2}, 2, 1, 2, 2},
      {{2, 3, 20}, {4, 3, 5}, 1, 2, 1, 2},      {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, 1, 1, 1, 1},
  };
  for (const Case& c : cases) {
    const auto spatial = static_cast<size_t>(c.x.rank() - 2);
    Attrs attrs;
    attrs.Set("group", c.group);
    attrs.Set("strides", std::vector<int64_t>(spatial, c.stride));
    attrs.Set("dilations", std::vector<int64_t>(spatial, c.dilation));
    attrs.Set("pads", std::vector<int64_t>(2 * spatial, c.pad));
    for (DType tx : {DType::kU8, DType::kI8}) {
      for (DType tw : {DType::kU8, DType::kI8}) {
        const Tensor x = Bytes(tx, c.x, 1), w = Bytes(tw, c.w, 2), xz = Bytes(tx, {}, 3), wz = Bytes(tw, {c.w[0]}, 4);
        EXPECT_GE(CheckRows("ConvInteger", attrs, {x, w}, 1, 0, 0), 1);
        EXPECT_GE(CheckRows("ConvInteger", attrs, {x, w, xz, Bytes(tw, {}, 5)}, 1, 0, 0), 1);
        const Tensor bias = Tensor::FromVector<int32_t>({c.w[0]}, std::vector<int32_t>(static_cast<size_t>(c.w[0]), -1234));
        EXPECT_GE(CheckRows("QLinearConv", attrs,
                            {x, Tensor::Scalar(0.02f), xz, w, RandomF32({c.w[0]}, 6, 0.01f, 0.03f), wz, Tensor::Scalar(0.3f),
                             Bytes(tx, {}, 7), bias},
                            1, 0, 0),
                  1);
      }
    }
  }
}

TEST(Quantize, RefusesBadInput) {
  const Tensor x = RandomF32({2, 3, 4}, 1);
  const auto code = [&](Attrs attrs, const std::vector<Tensor>& in, const char* op = "QuantizeLinear") {
    const auto r = Eval(op, attrs, in);
    return r.ok() ? Code::kOk : r.status().code();
  };
  Attrs attrs;
  attrs.Set("axis", int64_t{1});
  EXPECT_EQ(code(attrs, {x, RandomF32({3}, 2, 1, 2)}), Code::kOk);
  EXPECT_EQ(code(attrs, {x, RandomF32({4}, 2)}), Code::kBadInput);
  attrs.Set("axis", int64_t{3});
  EXPECT_EQ(code(attrs, {x, RandomF32({3}, 2)}), Code::kBadInput);
  attrs.Set("axis", int64_t{2});
  attrs.Set("block_size", int64_t{3});
  EXPECT_EQ(code(attrs, {x, RandomF32({2, 3, 2}, 2, 1, 2)}), Code::kOk);
  EXPECT_EQ(code(attrs, {x, RandomF32({2, 3, 3}, 2)}), Code::kBadInput);
  attrs.Set("block_size", int64_t{-1});
  EXPECT_EQ(code(attrs, {x, RandomF32({2, 3, 2}, 2)}), Code::kBadInput);
  Attrs type;
  type.Set("output_dtype", int64_t{999});
  EXPECT_EQ(code(type, {x, Tensor::Scalar(1.0f)}), Code::kBadInput);
  type.Set("output_dtype", int64_t{7});
  EXPECT_EQ(code(type, {x, Tensor::Scalar(1.0f)}), Code::kBadInput);
  EXPECT_EQ(
      code({}, {Tensor::FromVector<uint8_t>({1, 2}, {1, 2}), Tensor::FromVector<int8_t>({3, 1}, {1, 2, 3})}, "MatMulInteger"),
      Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels::quantize
