// Language model operators: ONNX's own cases, state carried over calls, hostile inputs.
#include "kernels/llm/llm.h"

#include "kernels/golden_test_util.h"
#include "kernels/row_check.h"

namespace tenon::kernels::llm {
namespace {

TEST(Llm, OnnxNodeCases) {
  testing::RunGoldens("llm.golden", 20);
}

// Two calls with the state handed on answer like one.
TEST(Llm, StatesCarryOver) {
  const Tensor w = RandomF32({3, 1, 4}, 2);
  const Tensor all = RandomF32({1, 3, 7}, 3);
  const auto cut = [&](int64_t from, int64_t to) {
    std::vector<float> v;
    for (int64_t c = 0; c < 3; ++c) v.insert(v.end(), all.Data<float>() + c * 7 + from, all.Data<float>() + c * 7 + to);
    return Tensor::FromVector<float>({1, 3, to - from}, v);
  };
  const auto whole = Eval("CausalConvWithState", {}, {all, w}, 2);
  const auto first = Eval("CausalConvWithState", {}, {cut(0, 2), w}, 2);
  ASSERT_TRUE(whole.ok() && first.ok());
  const auto second = Eval("CausalConvWithState", {}, {cut(2, 7), w, Tensor(), (*first)[1]}, 2);
  ASSERT_TRUE(second.ok());
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t t = 0; t < 5; ++t) EXPECT_EQ((*second)[0].Data<float>()[c * 5 + t], (*whole)[0].Data<float>()[c * 7 + 2 + t]);
  }
  EXPECT_TRUE(SameTensor((*second)[1].view(), (*whole)[1].view()));
}

TEST(Llm, RefusesBadInput) {
  const auto code = [](const char* op, const Attrs& attrs, const std::vector<Tensor>& in) {
    const auto r = Eval(op, attrs, in);
    return r.ok() ? Code::kOk : r.status().code();
  };
  const Tensor x = RandomF32({1, 2, 3, 4}, 1);
  const Tensor cache = RandomF32({5, 2}, 1);
  const auto ids = [](int64_t v) { return Tensor::FromVector<int64_t>({1, 3}, {0, 1, v}); };
  EXPECT_EQ(code("RotaryEmbedding", {}, {x, cache, cache, ids(4)}), Code::kOk);
  EXPECT_EQ(code("RotaryEmbedding", {}, {x, cache, cache, ids(5)}), Code::kBadInput);
  EXPECT_EQ(code("RotaryEmbedding", {}, {x, cache, cache, ids(-1)}), Code::kBadInput);
  EXPECT_EQ(code("RotaryEmbedding", {}, {x, cache, cache}), Code::kBadInput);
  EXPECT_EQ(code("RotaryEmbedding", {}, {RandomF32({1, 3, 8}, 1), cache, cache, ids(1)}), Code::kBadInput);
  Attrs big;
  big.Set("rotary_embedding_dim", int64_t{6});
  EXPECT_EQ(code("RotaryEmbedding", big, {x, RandomF32({5, 3}, 1), RandomF32({5, 3}, 1), ids(1)}), Code::kBadInput);
  Attrs heads;
  heads.Set("q_num_heads", int64_t{2});
  heads.Set("kv_num_heads", int64_t{2});
  heads.Set("update_rule", std::string("linear"));
  const Tensor q = RandomF32({1, 3, 8}, 1);
  EXPECT_EQ(code("LinearAttention", heads, {q, q, q}), Code::kOk);
  EXPECT_EQ(code("LinearAttention", heads, {q, RandomF32({1, 3, 6}, 1), q}), Code::kBadInput);
  EXPECT_EQ(code("LinearAttention", heads, {q, q, q, Tensor(), q}), Code::kBadInput);
  heads.Set("kv_num_heads", int64_t{0});
  EXPECT_EQ(code("LinearAttention", heads, {q, q, q}), Code::kBadInput);
  EXPECT_EQ(code("CausalConvWithState", {}, {q, RandomF32({2, 1, 3}, 1)}), Code::kBadInput);
  EXPECT_EQ(code("SwiGLU", {}, {q, x}), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels::llm
