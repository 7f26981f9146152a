#include "kernels/cached_attention/cached_attention.h"

#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

struct Case {
  int64_t heads, kv_heads, dim, n, window = 0;
  bool interleaved = false, norms = false;
  float softcap = 0;
  bool f32 = false;   // the cache
  bool exact = false;
  double tolerance() const { return f32 ? 1e-5 : exact ? 2e-3 : 2e-2; }
};

Attrs AttrsOf(const Case& c) {
  Attrs a;
  a.Set("heads", c.heads);
  a.Set("kv_heads", c.kv_heads);
  a.Set("head_dim", c.dim);
  a.Set("window", c.window);
  a.Set("interleaved", int64_t{c.interleaved});
  a.Set("softcap", c.softcap);
  a.Set("exact", int64_t{c.exact});
  a.Set("cache", std::string(c.f32 ? "f32" : "f16"));
  return a;
}

// q, k, v, table and norms of n rows.
std::vector<Tensor> InputsOf(const Case& c, const Shape& lead, uint32_t seed) {
  const auto shape = [&](int64_t width) {
    Shape s = lead;
    s.push_back(width);
    return s;
  };
  std::vector<Tensor> in = {RandomF32(shape(c.heads * c.dim), seed), RandomF32(shape(c.kv_heads * c.dim), seed + 1),
                            RandomF32(shape(c.kv_heads * c.dim), seed + 2)};
  Attrs rope;
  rope.Set("freqs", std::vector<float>{1.0f, 0.3f, 0.1f, 0.01f});
  const auto table = Eval("RopeTable", rope, {Tensor::Zeros(DType::kI64, lead).value()});
  in.push_back((*table)[0]);
  if (c.norms) in.push_back(RandomF32({c.dim}, seed + 3)), in.push_back(RandomF32({c.dim}, seed + 4));
  return in;
}

TEST(CachedAttention, RowsAgreeWithTheReference) {
  for (const Case& c : {Case{4, 4, 16, 5}, Case{9, 3, 64, 70}, Case{6, 1, 32, 130, 40}, Case{2, 2, 48, 9, 0, true, true},
                        Case{4, 2, 16, 66, 0, false, true, 5.0f}, Case{9, 3, 64, 70, 0, false, false, 0, true},
                        Case{4, 1, 32, 130, 40, true, true, 5.0f, true}}) {
    EXPECT_GE(CheckRows("CachedAttention", AttrsOf(c), InputsOf(c, {c.n}, 7), 1, c.tolerance(), c.tolerance()), 1);
    EXPECT_GE(CheckRows("CachedAttention", AttrsOf(c), InputsOf(c, {2, c.n}, 8), 1, c.tolerance(), c.tolerance()), 1);
  }
}

// One kernel, told of a cache.
struct Cached {
  Cached(const Case& shape, const std::string& row, hw::IsaMask mask) : c(shape), attrs(AttrsOf(shape)), isa(mask) {
    step.layers = 1, step.kv_heads = c.kv_heads, step.head_dim = c.dim, step.num_blocks = 4, step.f32 = c.f32;
    memory.resize(static_cast<size_t>(step.num_blocks * step.block_elements()) * (c.f32 ? 4 : 2));
    step.pool = memory.data();
    name = row;
  }
  // Rows [from, to) of the inputs.
  std::vector<float> Run(const std::vector<Tensor>& all, int64_t from, int64_t to) {
    std::vector<Tensor> in;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i >= 4) {
        in.push_back(all[i]);
        continue;
      }
      const int64_t width = all[i].shape().dim(-1);
      const float* p = all[i].Data<float>();
      in.push_back(Tensor::FromVector<float>({to - from, width}, std::vector<float>(p + from * width, p + to * width)));
    }
    const auto views = Views(in);
    std::vector<ValueInfo> infos(in.size()), outs(1);
    for (size_t i = 0; i < in.size(); ++i) infos[i] = {in[i].dtype(), true, false, SymShape(in[i].shape()), nullptr, {}};
    outs[0].present = true;
    EXPECT_TRUE(InferShapes("CachedAttention", {attrs, infos, outs}).ok());
    const Problem problem{"CachedAttention", attrs, infos, outs, isa, 2};
    const auto choice = ChooseRow(problem, name);
    EXPECT_TRUE(choice.ok());
    const auto kernel = choice->row->make(problem);
    EXPECT_TRUE(kernel.ok());
    Tensor y = Tensor::Zeros(DType::kF32, Shape({to - from, c.heads * c.dim})).value();
    std::vector<View> out_views = {y.view()};
    const auto configured = (*kernel)->Configure(views, out_views);
    EXPECT_TRUE(configured.ok());
    const auto scratch = Buffer::Allocate(configured->scratch_bytes + 64);
    std::vector<MutView> out = {y.mutable_view()};
    sequence = {0, to - from, from, table, 4};
    step.sequences = {&sequence, 1};
    hw::Team team(2);
    const Status status =
        (*kernel)->Run({views, out, configured->state.get(), static_cast<std::byte*>(scratch->data()), team, nullptr, &step});
    EXPECT_TRUE(status.ok()) << status.message();
    return {y.Data<float>(), y.Data<float>() + y.shape().num_elements()};
  }

  Case c;
  Attrs attrs;
  hw::IsaMask isa;
  std::string name;
  std::vector<std::byte> memory;
  KvSequence sequence;
  KvStep step;
  int32_t table[4] = {2, 0, 3, 1};
};

TEST(CachedAttention, ChunksAndSingleRowsGiveWhatOnePassGives) {
  // A row multiplies with what the instruction set has: each of its levels.
  std::vector<std::pair<std::string, hw::IsaMask>> ways = {{"CachedAttention_portable", 0}, {"reference", 0}};
  for (const char* level : {"avx2", "avx512", "avx512bf16", "amx"}) {
    const auto isa = hw::IsaFromLevel(level);
    if (isa.ok() && hw::Covers(hw::DetectIsa(), *isa)) ways.push_back({"", *isa});
  }
  for (const auto& [f32, exact] : {std::pair(false, false), {false, true}, {true, false}}) {
    Case c{6, 3, 32, 200, 90};
    c.f32 = f32, c.exact = exact;
    const std::vector<Tensor> in = InputsOf(c, {c.n}, 11);
    const auto whole = Eval("CachedAttention", AttrsOf(c), in, 1, "reference");
    ASSERT_TRUE(whole.ok());
    for (const auto& [row, isa] : ways) {
      Cached cached(c, row, isa);
      for (const auto& [from, to] :
           std::vector<std::pair<int64_t, int64_t>>{{0, 100}, {100, 170}, {170, 198}, {198, 199}, {199, 200}}) {
        const std::vector<float> got = cached.Run(in, from, to);
        const float* want = (*whole)[0].Data<float>() + from * c.heads * c.dim;
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], want[i], c.tolerance()) << row << " isa " << isa << " rows " << from << " to " << to;
      }
    }
  }
}

TEST(CachedAttention, SaysWhatIsWrong) {
  const Case c{4, 2, 16, 3};
  std::vector<Tensor> in = InputsOf(c, {c.n}, 1);
  Attrs attrs = AttrsOf(c);
  attrs.Set("kv_heads", int64_t{3});
  EXPECT_EQ(Eval("CachedAttention", attrs, in).status().code(), Code::kBadInput);
  in[1] = RandomF32({3, 16}, 1);
  EXPECT_EQ(Eval("CachedAttention", AttrsOf(c), in).status().code(), Code::kBadInput);
  in[1] = RandomF32({2, 32}, 1);
  EXPECT_EQ(Eval("CachedAttention", AttrsOf(c), in).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels
