// Quantisation: ONNX's own cases, rounding, exact integer sums on every instruction set, hostile shapes.
#include "kernels/quantize/quantize.h"

#include <cmath>

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
  EXPECT_GE(served, 1);
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
