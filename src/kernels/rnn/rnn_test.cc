// Recurrent layers: ONNX's own cases, every row against the reference, ragged batches, hostile attributes.
#include "kernels/rnn/rnn.h"

#include <random>

#include "kernels/golden_test_util.h"

namespace tenon::kernels::rnn {
namespace {

TEST(Rnn, OnnxNodeCases) {
  testing::RunGoldens("rnn.golden", 12);
}

Tensor Random(std::mt19937& rng, const Shape& shape, float scale = 1) {
  std::vector<float> v(static_cast<size_t>(shape.num_elements()));
  std::uniform_real_distribution<float> d(-scale, scale);
  for (float& x : v) x = d(rng);
  return Tensor::FromVector<float>(shape, v);
}

struct Case {
  std::string op;
  int64_t seq, batch, in, hidden;
  std::string direction;
  bool bias, lengths, states, peephole;
  int64_t layout;
  Attrs attrs;
};

std::vector<Tensor> Inputs(const Case& c, std::mt19937& rng) {
  const int64_t g = c.op == "LSTM" ? 4 : c.op == "GRU" ? 3 : 1;
  const int64_t d = c.direction == "bidirectional" ? 2 : 1;
  const float scale = 1.0f / std::sqrt(static_cast<float>(c.hidden));
  std::vector<Tensor> in = {Random(rng, c.layout == 1 ? Shape{c.batch, c.seq, c.in} : Shape{c.seq, c.batch, c.in}),
                            Random(rng, {d, g * c.hidden, c.in}, scale), Random(rng, {d, g * c.hidden, c.hidden}, scale)};
  in.push_back(c.bias ? Random(rng, {d, 2 * g * c.hidden}) : Tensor());
  if (c.lengths) {
    std::vector<int32_t> n;
    for (int64_t b = 0; b < c.batch; ++b) n.push_back(static_cast<int32_t>(rng() % static_cast<uint64_t>(c.seq + 1)));
    in.push_back(Tensor::FromVector<int32_t>({c.batch}, n));
  } else {
    in.emplace_back();
  }
  const Shape state = c.layout == 1 ? Shape{c.batch, d, c.hidden} : Shape{d, c.batch, c.hidden};
  in.push_back(c.states ? Random(rng, state) : Tensor());
  if (c.op == "LSTM") {
    in.push_back(c.states ? Random(rng, state) : Tensor());
    in.push_back(c.peephole ? Random(rng, {d, 3 * c.hidden}) : Tensor());
  }
  return in;
}

void Compare(const Case& c, std::mt19937& rng) {
  Attrs attrs = c.attrs;
  attrs.Set("direction", c.direction);
  attrs.Set("layout", c.layout);
  const auto tensors = Inputs(c, rng);
  std::vector<View> in;
  for (const Tensor& t : tensors) in.push_back(t.defined() ? t.view() : View{});
  hw::Team team(2);
  const int outputs = c.op == "LSTM" ? 3 : 2;
  const auto want = Evaluate(c.op, attrs, in, outputs, hw::kBaseline, team, "reference");
  ASSERT_TRUE(want.ok()) << want.status().message();
  for (const Row& row : FindOp(c.op)->rows) {
    if (row.needs == 0 || !hw::Covers(hw::DetectIsa(), row.needs)) continue;
    SCOPED_TRACE(fmt::format("{} {} seq {} batch {} in {} hidden {} layout {}", row.name, c.direction, c.seq, c.batch, c.in,
                             c.hidden, c.layout));
    const auto got = Evaluate(c.op, attrs, in, outputs, hw::DetectIsa(), team, row.name);
    ASSERT_TRUE(got.ok()) << got.status().message();
    for (int i = 0; i < outputs; ++i) testing::ExpectClose((*got)[i].view(), (*want)[i].view(), 1e-5, 1e-5);
  }
}

TEST(Rnn, RowsAgreeWithReference) {
  std::mt19937 rng(7);
  const char* directions[] = {"forward", "reverse", "bidirectional"};
  for (int i = 0; i < 120; ++i) {
    Case c;
    c.op = i % 3 == 0 ? "LSTM" : i % 3 == 1 ? "GRU" : "RNN";
    c.seq = 1 + rng() % 7;
    c.batch = 1 + rng() % 9;
    c.in = 1 + rng() % 40;
    c.hidden = 1 + rng() % 80;
    c.direction = directions[rng() % 3];
    c.bias = rng() % 2 != 0;
    c.lengths = rng() % 2 != 0;
    c.states = rng() % 2 != 0;
    c.peephole = rng() % 2 != 0;
    c.layout = rng() % 2;
    if (rng() % 2 != 0) c.attrs.Set("clip", 0.4f);
    c.attrs.Set("linear_before_reset", static_cast<int64_t>(rng() % 2));
    c.attrs.Set("input_forget", static_cast<int64_t>(rng() % 4 == 0));
    if (rng() % 4 == 0 && c.direction != "bidirectional") {
      const std::vector<std::string> all = {"HardSigmoid", "ScaledTanh", "Affine"};
      c.attrs.Set("activations", std::vector<std::string>(all.begin(), all.begin() + (c.op == "LSTM"  ? 3
                                                                                      : c.op == "GRU" ? 2
                                                                                                      : 1)));
      c.attrs.Set("activation_alpha", std::vector<float>{0.3f, 0.9f, 0.5f});
    }
    Compare(c, rng);
  }
}

TEST(Rnn, LongSequencesAndWideLayers) {
  std::mt19937 rng(8);
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    Compare({op, 200, 1, 17, 128, "bidirectional", true, false, true, false, 0, {}}, rng);
    Compare({op, 3, 70, 33, 130, "forward", true, true, false, false, 1, {}}, rng);
  }
}

TEST(Rnn, PaddingDoesNotChangeARow) {
  std::mt19937 rng(9);
  Case c{"LSTM", 6, 3, 8, 24, "bidirectional", true, false, false, false, 0, {}};
  auto tensors = Inputs(c, rng);
  tensors[4] = Tensor::FromVector<int32_t>({3}, {6, 2, 0});
  Attrs attrs;
  attrs.Set("direction", std::string("bidirectional"));
  std::vector<View> in;
  for (const Tensor& t : tensors) in.push_back(t.defined() ? t.view() : View{});
  hw::Team team(1);
  const auto all = Evaluate("LSTM", attrs, in, 3, hw::DetectIsa(), team);
  ASSERT_TRUE(all.ok());
  // Row 1 alone with two steps.
  std::vector<float> x;
  for (int64_t t = 0; t < 2; ++t) {
    const float* row = tensors[0].Data<float>() + (t * 3 + 1) * 8;
    x.insert(x.end(), row, row + 8);
  }
  const Tensor alone_x = Tensor::FromVector<float>({2, 1, 8}, x);
  in[0] = alone_x.view();
  in[4] = View{};
  const auto alone = Evaluate("LSTM", attrs, in, 3, hw::DetectIsa(), team);
  ASSERT_TRUE(alone.ok());
  for (int64_t d = 0; d < 2; ++d) {
    for (int64_t j = 0; j < 24; ++j) {
      EXPECT_FLOAT_EQ((*all)[1].Data<float>()[(d * 3 + 1) * 24 + j], (*alone)[1].Data<float>()[d * 24 + j]);
      EXPECT_EQ((*all)[1].Data<float>()[(d * 3 + 2) * 24 + j], 0.0f);
      for (int64_t t = 2; t < 6; ++t) EXPECT_EQ((*all)[0].Data<float>()[((t * 2 + d) * 3 + 1) * 24 + j], 0.0f);
    }
  }
}

TEST(Rnn, RefusesBadInput) {
  std::mt19937 rng(10);
  Case c{"GRU", 2, 2, 3, 4, "forward", true, true, false, false, 0, {}};
  hw::Team team(1);
  const auto run = [&](const std::vector<Tensor>& tensors, const Attrs& attrs) {
    std::vector<View> in;
    for (const Tensor& t : tensors) in.push_back(t.defined() ? t.view() : View{});
    const auto r = Evaluate("GRU", attrs, in, 2, hw::DetectIsa(), team);
    return r.ok() ? Code::kOk : r.status().code();
  };
  auto good = Inputs(c, rng);
  EXPECT_EQ(run(good, {}), Code::kOk);
  auto lengths = good;
  lengths[4] = Tensor::FromVector<int32_t>({2}, {3, 1});
  EXPECT_EQ(run(lengths, {}), Code::kBadInput);
  auto wrong = good;
  wrong[2] = Random(rng, {1, 12, 5});
  EXPECT_EQ(run(wrong, {}), Code::kBadInput);
  wrong = good;
  wrong[3] = Random(rng, {1, 23});
  EXPECT_EQ(run(wrong, {}), Code::kBadInput);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, AttrValue>>{
           {"direction", std::string("sideways")},
           {"layout", int64_t{2}},
           {"hidden_size", int64_t{-1}},
           {"clip", -1.0f},
           {"hidden_size", int64_t{5}},
           {"activations", std::vector<std::string>{"Sigmoid"}},
           {"activations", std::vector<std::string>{"Sigmoid", "Nonsense"}}}) {
    Attrs attrs;
    attrs.Set(name, value);
    EXPECT_EQ(run(good, attrs), Code::kBadInput) << name;
  }
}

}  // namespace
}  // namespace tenon::kernels::rnn
