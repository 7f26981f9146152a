// f16 and bf16 through the f32 rows against the reference, which computes in double and rounds once.
#include "kernels/through_f32.h"

#include "kernels/float_io.h"
#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

Tensor Rounded(const Tensor& t, DType dtype) {
  Tensor y = *Tensor::Allocate(dtype, t.shape());
  for (int64_t i = 0; i < t.shape().num_elements(); ++i) StoreAt(y.mutable_view(), i, LoadAt(t.view(), i));
  return y;
}

// Both rows of both types; a result may be one step of the type away, where the double lies at the edge.
void Check(const std::string& op, const Attrs& attrs, const std::vector<Tensor>& in, int outputs = 1) {
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    std::vector<Tensor> typed;
    for (const Tensor& t : in) typed.push_back(t.defined() && t.dtype() == DType::kF32 ? Rounded(t, dtype) : t);
    const double step = dtype == DType::kBF16 ? 1.0 / 128 : 1.0 / 1024;
    EXPECT_GT(CheckRows(op, attrs, typed, outputs, step, 1e-6), 0) << op;
  }
}

TEST(ThroughF32, ServesWhatF32RowsServe) {
  if (!hw::Covers(hw::DetectIsa(), hw::kAvx2)) GTEST_SKIP();
  const Tensor x = RandomF32({2, 6, 9, 11}, 1);
  Attrs pool;
  pool.Set("kernel_shape", std::vector<int64_t>{3, 3});
  pool.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  Check("MaxPool", pool, {x});
  Check("AveragePool", pool, {x});
  Check("GlobalAveragePool", {}, {x});
  pool.Set("data_layout", std::string("NHWC"));
  Check("MaxPool", pool, {x});
  Check("LayerNormalization", {}, {x, RandomF32({11}, 2), RandomF32({11}, 3)});
  Check("Softmax", {}, {x});
  Check("ReduceMean", {}, {x, Tensor::FromVector<int64_t>({2}, {2, 3})});
  EXPECT_GT(CheckRows("Resize", {}, {Rounded(x, DType::kBF16), Tensor(), Tensor::FromVector<float>({4}, {1, 1, 2, 2})}, 1, 0, 0),
            0);
  Attrs heads;
  heads.Set("num_heads", int64_t{2});
  // bf16 has rows of its own, which round the probabilities.
  const std::vector<Tensor> qkv{Rounded(RandomF32({2, 13, 16}, 4), DType::kBF16), Rounded(RandomF32({2, 9, 16}, 5), DType::kBF16),
                                Rounded(RandomF32({2, 9, 16}, 6), DType::kBF16)};
  const auto want = Eval("FusedAttention", heads, qkv, 1, "reference");
  const auto got = Eval("FusedAttention", heads, qkv, 1, "Attention_through_f32");
  ASSERT_TRUE(want.ok() && got.ok());
  ExpectClose((*got)[0], (*want)[0], 1.0 / 128, 1e-6, "FusedAttention");
}

// Pooling has bf16 rows of its own where channels come last.
TEST(ThroughF32, PoolsChannelsLast) {
  if (!hw::Covers(hw::DetectIsa(), hw::kAvx2)) GTEST_SKIP();
  for (int64_t channels : {1, 7, 8, 16, 33, 70, 130}) {
    Attrs pool;
    pool.Set("data_layout", std::string("NHWC"));
    pool.Set("kernel_shape", std::vector<int64_t>{3, 2});
    pool.Set("strides", std::vector<int64_t>{2, 1});
    pool.Set("pads", std::vector<int64_t>{1, 1, 1, 0});
    Tensor x = Rounded(RandomF32({2, 7, 5, channels}, static_cast<uint32_t>(channels)), DType::kBF16);
    for (const char* op : {"MaxPool", "AveragePool"}) EXPECT_GT(CheckRows(op, pool, {x}, 1, 1.0 / 128, 1e-6), 1) << op;
    for (int64_t c = 0; c < channels; ++c) StoreAt(x.mutable_view(), 9 * channels + c, c % 2 == 0 ? std::nan("") : -HUGE_VAL);
    EXPECT_GT(CheckRows("MaxPool", pool, {x}, 1, 1.0 / 128, 1e-6), 1);
  }
}

// ElementwiseChain has the types in rows of its own.
TEST(ThroughF32, ElementwiseChainOfHalves) {
  if (!hw::Covers(hw::DetectIsa(), hw::kAvx2)) GTEST_SKIP();
  Attrs attrs;
  attrs.Set("ops", std::vector<std::string>{"Mul", "Silu", "Add"});
  attrs.Set("args", std::vector<int64_t>{0, 1, 3, -1, 4, 2});
  attrs.Set("params", std::vector<float>(6, 0.0F));
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    for (const Shape& second : {Shape{3, 7, 400}, Shape{400}, Shape{7, 1}, Shape{1}, Shape{3, 1, 400}, Shape{0}}) {
      const Shape first = second == Shape{0} ? Shape{4, 0} : Shape{3, 7, 400};
      const std::vector<Tensor> in{Rounded(RandomF32(first, 1), dtype), Rounded(RandomF32(second, 2), dtype),
                                   Rounded(RandomF32(first, 3), dtype)};
      const auto want = Eval("ElementwiseChain", attrs, in, 1, "Chain_reference");
      ASSERT_TRUE(want.ok()) << want.status().message();
      for (const Row& row : FindOp("ElementwiseChain")->rows) {
        if (!hw::Covers(hw::DetectIsa(), row.needs)) continue;
        const auto got = Eval("ElementwiseChain", attrs, in, 1, std::string(row.name));
        ASSERT_TRUE(got.ok()) << got.status().message();
        ExpectClose((*got)[0], (*want)[0], dtype == DType::kBF16 ? 1.0 / 128 : 1.0 / 1024, 1e-6, std::string(row.name));
      }
    }
  }
  EXPECT_FALSE(
      Eval("ElementwiseChain", attrs, {Rounded(RandomF32({4}, 1), DType::kBF16), RandomF32({4}, 2), RandomF32({4}, 3)}).ok());
}

TEST(ThroughF32, RefusesOtherTypes) {
  const Attrs attrs;
  std::vector<ValueInfo> in(1), out(1);
  in[0] = {DType::kF32, true, false, Shape{2, 3}, nullptr, {}};
  out[0] = in[0];
  EXPECT_NE(CanThroughF32({"Softmax", attrs, in, out, hw::DetectIsa(), 1}), nullptr);
  in[0].dtype = out[0].dtype = DType::kBF16;
  EXPECT_NE(CanThroughF32({"Softmax", attrs, in, out, hw::kBaseline, 1}), nullptr);
  EXPECT_NE(CanThroughF32({"NoSuchOperator", attrs, in, out, hw::DetectIsa(), 1}), nullptr);
}

}  // namespace
}  // namespace tenon::kernels
