#include <gtest/gtest.h>

#include <limits>

#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

constexpr double kRtol = 2e-5, kAtol = 2e-5;

Attrs Heads(int64_t heads, int64_t kv_heads) {
  Attrs attrs;
  attrs.Set("num_heads", heads);
  attrs.Set("kv_num_heads", kv_heads);
  return attrs;
}

TEST(Attention, FusedRowsMatchReference) {
  struct Case {
    int64_t b, h, kv, sq, sk, d, dv;
  };
  uint32_t seed = 0;
  for (const Case& c : {Case{1, 1, 1, 1, 1, 1, 1},
                        {2, 3, 3, 5, 7, 8, 8},
                        {1, 8, 8, 40, 40, 15, 15},
                        {1, 2, 1, 50, 61, 32, 32},
                        {1, 4, 2, 97, 300, 64, 64},
                        {2, 2, 2, 13, 257, 20, 36},
                        {1, 4, 1, 1, 70, 64, 64},
                        {1, 1, 1, 49, 530, 24, 80},
                        {1, 2, 2, 3, 0, 4, 4},
                        {1, 8, 2, 2, 33, 16, 17}}) {
    const Tensor q = RandomF32({c.b, c.sq, c.h * c.d}, ++seed), k = RandomF32({c.b, c.sk, c.kv * c.d}, ++seed);
    const Tensor v = RandomF32({c.b, c.sk, c.kv * c.dv}, ++seed), mask = RandomF32({c.b, 1, 1, c.sk}, ++seed, -3, 3);
    for (int64_t causal : {0, 1, 2}) {
      Attrs attrs = Heads(c.h, c.kv);
      attrs.Set("is_causal", causal);
      EXPECT_EQ(CheckRows("FusedAttention", attrs, {q, k, v}, 1, kRtol, kAtol), 2);
      EXPECT_EQ(CheckRows("FusedAttention", attrs, {q, k, v, mask}, 1, kRtol, kAtol), 2);
    }
    Attrs attrs = Heads(c.h, c.kv);
    attrs.Set("softcap", 3.0f);
    attrs.Set("scale", 0.3f);
    attrs.Set("out_rank", int64_t{4});
    EXPECT_EQ(CheckRows("FusedAttention", attrs, {q, k, v, RandomF32({c.h, c.sq, 1}, ++seed)}, 1, kRtol, kAtol), 2);
    const Tensor q4 = RandomF32({c.b, c.h, c.sq, c.d}, ++seed), k4 = RandomF32({c.b, c.kv, c.sk, c.d}, ++seed);
    EXPECT_EQ(CheckRows("FusedAttention", Heads(c.h, c.kv), {q4, k4, v, RandomF32({c.sq, c.sk}, ++seed)}, 1, kRtol, kAtol), 2);
    const Tensor packed = RandomF32({c.b, c.sq, (c.h + 2 * c.kv) * c.d}, ++seed);
    EXPECT_EQ(CheckRows("FusedAttention", Heads(c.h, c.kv), {packed}, 1, kRtol, kAtol), 2);
  }
}

TEST(Attention, LongKeysAreServedBlockByBlock) {
  const Tensor q = RandomF32({1, 20, 16}, 1), k = RandomF32({1, 4500, 16}, 2), v = RandomF32({1, 4500, 12}, 3);
  EXPECT_EQ(CheckRows("FusedAttention", Heads(1, 1), {q, k, v}, 1, 1e-4, 1e-5), 2);
}

TEST(Attention, MaskedRowsAreZeroAndMaskedKeysDoNotCount) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t rows : {int64_t{2}, int64_t{20}}) {
    Tensor k = RandomF32({1, 6, 8}, 2);
    k.MutableData<float>()[5 * 8] = 1e30f;  // key 5 is masked everywhere: its score must not matter
    const Tensor q = RandomF32({1, rows, 8}, 1), v = RandomF32({1, 6, 8}, 3);
    std::vector<float> m(static_cast<size_t>(rows) * 6, 0.0f);
    for (size_t r = 0; r < static_cast<size_t>(rows); ++r) m[r * 6 + 5] = -inf;
    for (size_t j = 0; j < 6; ++j) m[j] = -inf;  // row 0 sees nothing
    const Tensor mask = Tensor::FromVector<float>({rows, 6}, m);
    EXPECT_EQ(CheckRows("FusedAttention", Heads(1, 1), {q, k, v, mask}, 1, kRtol, kAtol), 2);
    auto y = Eval("FusedAttention", Heads(1, 1), {q, k, v, mask});
    ASSERT_TRUE(y.ok());
    for (int i = 0; i < 8; ++i) EXPECT_EQ((*y)[0].Data<float>()[i], 0.0f);
    std::vector<bool> b;
    Tensor bools = *Tensor::Allocate(DType::kBool, {rows, 6});
    for (int64_t i = 0; i < rows * 6; ++i) bools.MutableData<bool>()[i] = m[static_cast<size_t>(i)] == 0;
    EXPECT_EQ(CheckRows("FusedAttention", Heads(1, 1), {q, k, v, bools}, 1, kRtol, kAtol), 2);
  }
}

TEST(Attention, CacheWindowsAndLengths) {
  uint32_t seed = 90;
  const Tensor q = RandomF32({2, 4, 9, 16}, ++seed), k = RandomF32({2, 2, 9, 16}, ++seed), v = RandomF32({2, 2, 9, 24}, ++seed);
  const Tensor pk = RandomF32({2, 2, 5, 16}, ++seed), pv = RandomF32({2, 2, 5, 24}, ++seed);
  for (int64_t causal : {0, 1}) {
    for (int64_t left : {-1, 0, 3}) {
      for (int64_t right : {-1, 0, 2}) {
        Attrs attrs;
        attrs.Set("is_causal", causal);
        attrs.Set("left_window_size", left);
        attrs.Set("right_window_size", right);
        EXPECT_EQ(CheckRows("Attention", attrs, {q, k, v, Tensor(), pk, pv}, 3, kRtol, kAtol), 2);
        EXPECT_EQ(CheckRows("Attention", attrs, {q, k, v, Tensor(), pk, pv}, 1, kRtol, kAtol), 2);
        const Tensor lens = Tensor::FromVector<int64_t>({2}, {4, 9});
        EXPECT_EQ(CheckRows("Attention", attrs, {q, k, v, Tensor(), Tensor(), Tensor(), lens}, 1, kRtol, kAtol), 2);
        const Tensor one = RandomF32({2, 4, 1, 16}, ++seed);
        const Tensor k1 = RandomF32({2, 2, 1, 16}, ++seed), v1 = RandomF32({2, 2, 1, 24}, ++seed);
        EXPECT_EQ(CheckRows("Attention", attrs, {one, k1, v1, Tensor(), pk, pv}, 3, kRtol, kAtol), 2);
      }
    }
  }
  // A mask shorter than the keys hides the rest.
  EXPECT_EQ(CheckRows("Attention", Attrs(), {q, k, v, RandomF32({9, 6}, ++seed)}, 1, kRtol, kAtol), 2);
}

TEST(Attention, BadInputsAreErrors) {
  const Tensor q = RandomF32({1, 4, 12}, 1), k = RandomF32({1, 5, 12}, 2), v = RandomF32({1, 5, 12}, 3);
  const auto code = [](Attrs attrs, std::vector<Tensor> in) { return Eval("FusedAttention", attrs, in).status().code(); };
  EXPECT_EQ(code(Heads(0, 0), {q, k, v}), Code::kBadInput);
  EXPECT_EQ(code(Heads(5, 5), {q, k, v}), Code::kBadInput);
  EXPECT_EQ(code(Heads(3, 2), {q, k, v}), Code::kBadInput);
  EXPECT_EQ(code(Heads(3, 3), {q, k}), Code::kBadInput);
  EXPECT_EQ(code(Heads(3, 3), {q, k, RandomF32({1, 6, 12}, 1)}), Code::kBadInput);
  EXPECT_EQ(code(Heads(3, 3), {q, k, v, RandomF32({7}, 1)}), Code::kBadInput);
  EXPECT_EQ(code(Heads(3, 3), {RandomF32({4, 12}, 1), k, v}), Code::kBadInput);
  const Tensor q4 = RandomF32({1, 1, 2, 4}, 1), k4 = RandomF32({1, 1, 3, 4}, 1);
  for (int64_t len : {int64_t{-1}, int64_t{4}, std::numeric_limits<int64_t>::max()}) {
    const Tensor lens = Tensor::FromVector<int64_t>({1}, {len});
    EXPECT_EQ(Eval("Attention", Attrs(), {q4, k4, k4, Tensor(), Tensor(), Tensor(), lens}).status().code(), Code::kBadInput);
  }
}

TEST(Attention, SymbolicShapes) {
  ValueInfo in[3], y;
  for (ValueInfo& v : in) {
    v.present = true;
    v.dtype = DType::kF32;
    v.shape = SymShape({Dim::Symbol("b"), Dim::Symbol("s"), Dim(96)});
  }
  y.present = true;
  ASSERT_TRUE(InferShapes("FusedAttention", {Heads(8, 8), in, {&y, 1}}).ok());
  EXPECT_EQ(y.shape.ToString(), "[b,s,96]");
  ASSERT_TRUE(InferShapes("FusedAttention", {Heads(8, 8), {in, 1}, {&y, 1}}).ok());
  EXPECT_EQ(y.shape.ToString(), "[b,s,32]");
}

}  // namespace
}  // namespace tenon::kernels
