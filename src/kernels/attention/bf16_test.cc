// The bf16 rows of attention against the reference, which computes in double and rounds once.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/float_io.h"
#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

// Probabilities add up to 1 and are rounded to 8 bits, values are at most 2; then the result is rounded.
constexpr double kAtol = 2.0 / 512, kRtol = 1.0 / 128;

int Rows() {
  int rows = 0;
  for (const Row& row : FindOp("FusedAttention")->rows) {
    const bool bf16 = row.name.find("_bf16_") != std::string_view::npos || row.name.find("through") != std::string_view::npos;
    rows += bf16 && hw::Covers(hw::DetectIsa(), row.needs) ? 1 : 0;
  }
  return rows;
}

Tensor Bf16(const Shape& shape, uint32_t seed) {
  const Tensor t = RandomF32(shape, seed);
  Tensor y = *Tensor::Allocate(DType::kBF16, shape);
  for (int64_t i = 0; i < shape.num_elements(); ++i) StoreAt(y.mutable_view(), i, LoadAt(t.view(), i));
  return y;
}

Attrs Heads(int64_t heads, int64_t kv_heads) {
  Attrs attrs;
  attrs.Set("num_heads", heads);
  attrs.Set("kv_num_heads", kv_heads);
  return attrs;
}

TEST(AttentionBf16, FusedRowsMatchReference) {
  struct Case {
    int64_t b, h, kv, sq, sk, d, dv;
  };
  uint32_t seed = 0;
  for (const Case& c : {Case{1, 1, 1, 1, 1, 1, 1},
                        {2, 3, 3, 5, 7, 8, 8},
                        {1, 8, 8, 40, 40, 15, 15},
                        {1, 2, 1, 50, 61, 32, 32},
                        {1, 4, 2, 97, 300, 64, 64},
                        {1, 4, 1, 1, 70, 64, 64},
                        {1, 1, 1, 49, 530, 24, 80},
                        {1, 2, 2, 3, 0, 4, 4},
                        {1, 8, 2, 2, 33, 16, 17}}) {
    const Tensor q = Bf16({c.b, c.sq, c.h * c.d}, ++seed), k = Bf16({c.b, c.sk, c.kv * c.d}, ++seed);
    const Tensor v = Bf16({c.b, c.sk, c.kv * c.dv}, ++seed), mask = Bf16({c.b, 1, 1, c.sk}, ++seed);
    for (int64_t causal : {0, 1, 2}) {
      Attrs attrs = Heads(c.h, c.kv);
      attrs.Set("is_causal", causal);
      EXPECT_EQ(CheckRows("FusedAttention", attrs, {q, k, v}, 1, kRtol, kAtol), Rows());
      EXPECT_EQ(CheckRows("FusedAttention", attrs, {q, k, v, mask}, 1, kRtol, kAtol), Rows());
    }
    Attrs attrs = Heads(c.h, c.kv);
    attrs.Set("softcap", 3.0f);
    attrs.Set("scale", 0.3f);
    attrs.Set("out_rank", int64_t{4});
    EXPECT_EQ(CheckRows("FusedAttention", attrs, {q, k, v, Bf16({c.h, c.sq, 1}, ++seed)}, 1, kRtol, kAtol), Rows());
    const Tensor packed = Bf16({c.b, c.sq, (c.h + 2 * c.kv) * c.d}, ++seed);
    EXPECT_EQ(CheckRows("FusedAttention", Heads(c.h, c.kv), {packed}, 1, kRtol, kAtol), Rows());
  }
}

// Products of depths on either side of what stays in a cache, from one scratch.
TEST(AttentionBf16, LongCausalKeys) {
  Attrs attrs = Heads(1, 1);
  attrs.Set("is_causal", int64_t{2});
  const std::vector<Tensor> in{Bf16({1, 70, 8}, 1), Bf16({1, 8260, 8}, 2), Bf16({1, 8260, 64}, 3)};
  EXPECT_EQ(CheckRows("FusedAttention", attrs, in, 1, kRtol, kAtol), Rows());
}

TEST(AttentionBf16, MaskedRowsAreZero) {
  Tensor bools = *Tensor::Allocate(DType::kBool, {20, 6});
  for (int64_t i = 0; i < 120; ++i) bools.MutableData<bool>()[i] = i >= 6 && i % 6 != 5;
  const std::vector<Tensor> in{Bf16({1, 20, 8}, 1), Bf16({1, 6, 8}, 2), Bf16({1, 6, 8}, 3), bools};
  EXPECT_EQ(CheckRows("FusedAttention", Heads(1, 1), in, 1, kRtol, kAtol), Rows());
  auto y = Eval("FusedAttention", Heads(1, 1), in);
  ASSERT_TRUE(y.ok());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(LoadAt((*y)[0].view(), i), 0.0);
}

TEST(AttentionBf16, CacheAndLengths) {
  const Tensor q = Bf16({2, 4, 9, 32}, 11), k = Bf16({2, 2, 9, 32}, 12), pk = Bf16({2, 2, 5, 32}, 14),
               pv = Bf16({2, 2, 5, 24}, 15);
  Tensor v = Bf16({2, 2, 9, 24}, 13);
  Attrs attrs;
  for (int64_t causal : {0, 1}) {
    attrs.Set("is_causal", causal);
    EXPECT_EQ(CheckRows("Attention", attrs, {q, k, v, Tensor(), pk, pv}, 3, kRtol, kAtol), Rows());
    EXPECT_EQ(CheckRows("Attention", attrs, {q, k, v, Tensor(), pk, pv}, 1, kRtol, kAtol), Rows());
  }
  // What lies behind the valid keys may be anything.
  for (int64_t i = 0; i < 24; ++i) StoreAt(v.mutable_view(), 8 * 24 + i, std::numeric_limits<double>::quiet_NaN());
  const Tensor lens = Tensor::FromVector<int64_t>({2}, {4, 9});
  EXPECT_EQ(CheckRows("Attention", Attrs(), {q, k, v, Tensor(), Tensor(), Tensor(), lens}, 1, kRtol, kAtol), Rows());
  EXPECT_EQ(CheckRows("Attention", Attrs(), {q, k, v, Bf16({9, 6}, 16)}, 1, kRtol, kAtol), Rows());
}

}  // namespace
}  // namespace tenon::kernels
