#include "kernels/cached_attention/cached_attention.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "base/half.h"
#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

struct Case {
  int64_t heads, kv_heads, dim, n, window = 0;
  bool interleaved = false, norms = false;
  float softcap = 0;
  KvType cache = KvType::kF16;
  bool exact = false;
  int64_t blocks = 4;   // of the pool
  // Keys that lie in the middle between two numbers may be rounded the other way: all rows turn in f32, the reference in f64.
  double tolerance() const {
    if (cache == KvType::kF32) return 1e-5;
    if (!exact) return 2e-2;   // products of bf16
    return cache == KvType::kF16 ? 5e-4 : cache == KvType::kQ8_0 ? 2e-3 : 5e-3;
  }
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
  a.Set("cache", std::string(KvTypeName(c.cache)));
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
  for (const Case& c :
       {Case{4, 4, 16, 5}, Case{9, 3, 64, 70}, Case{6, 1, 32, 130, 40}, Case{2, 2, 48, 9, 0, true, true},
        Case{4, 2, 16, 66, 0, false, true, 5.0f}, Case{9, 3, 64, 70, 0, false, false, 0, KvType::kF32},
        Case{4, 1, 32, 130, 40, true, true, 5.0f, KvType::kF32}, Case{9, 3, 64, 70, 0, false, false, 0, KvType::kQ8_0},
        Case{4, 1, 32, 130, 40, true, true, 5.0f, KvType::kQ8_0, true},
        Case{3, 1, 96, 70, 0, false, false, 0, KvType::kQ8_0, true}, Case{9, 3, 64, 70, 0, false, false, 0, KvType::kBf16},
        Case{5, 5, 48, 130, 40, true, true, 5.0f, KvType::kBf16, true}}) {
    EXPECT_GE(CheckRows("CachedAttention", AttrsOf(c), InputsOf(c, {c.n}, 7), 1, c.tolerance(), c.tolerance()), 1);
    EXPECT_GE(CheckRows("CachedAttention", AttrsOf(c), InputsOf(c, {2, c.n}, 8), 1, c.tolerance(), c.tolerance()), 1);
  }
}

// One kernel, told of a cache.
struct Cached {
  Cached(const Case& shape, const std::string& row, hw::IsaMask mask) : c(shape), attrs(AttrsOf(shape)), isa(mask) {
    step.shape = {1, c.kv_heads, c.dim, c.cache}, step.num_blocks = c.blocks;
    memory.assign(static_cast<size_t>(step.num_blocks * step.shape.block_bytes()), std::byte{0xff});   // NaN, where nothing is
    step.pool = memory.data();
    name = row;
    table = {2, 0, 3, 1};   // blocks lie anywhere
    while (std::ssize(table) < c.blocks) table.push_back(static_cast<int32_t>(std::ssize(table)));
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
    sequence = {0, to - from, from, table.data(), c.blocks};
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
  std::vector<int32_t> table;
};

// A row multiplies with what the instruction set has: each of its levels.
std::vector<std::pair<std::string, hw::IsaMask>> Ways() {
  std::vector<std::pair<std::string, hw::IsaMask>> ways = {{"CachedAttention_portable", 0}, {"reference", 0}};
  for (const char* level : {"avx2", "avx512", "avx512bf16", "amx"}) {
    const auto isa = hw::IsaFromLevel(level);
    if (isa.ok() && hw::Covers(hw::DetectIsa(), *isa)) ways.push_back({"", *isa});
  }
  return ways;
}

TEST(CachedAttention, ChunksAndSingleRowsGiveWhatOnePassGives) {
  for (const auto& [cache, exact] : {std::pair(KvType::kF16, false),
                                     {KvType::kF16, true},
                                     {KvType::kF32, false},
                                     {KvType::kBf16, false},
                                     {KvType::kBf16, true},
                                     {KvType::kQ8_0, false},
                                     {KvType::kQ8_0, true}}) {
    Case c{6, 3, 32, 200, 90};
    c.cache = cache, c.exact = exact;
    const std::vector<Tensor> in = InputsOf(c, {c.n}, 11);
    const auto whole = Eval("CachedAttention", AttrsOf(c), in, 1, "reference");
    ASSERT_TRUE(whole.ok());
    for (const auto& [row, isa] : Ways()) {
      Cached cached(c, row, isa);
      for (const auto& [from, to] :
           std::vector<std::pair<int64_t, int64_t>>{{0, 100}, {100, 170}, {170, 198}, {198, 199}, {199, 200}}) {
        const std::vector<float> got = cached.Run(in, from, to);
        const float* want = (*whole)[0].Data<float>() + from * c.heads * c.dim;
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], want[i], c.tolerance())
              << KvTypeName(cache) << " " << row << " isa " << isa << " rows " << from << " to " << to;
        }
      }
    }
  }
}

TEST(CachedAttention, RowsFarInAreSplitUpAlike) {
  for (const int64_t window : {0, 300}) {
    for (const KvType type : {KvType::kF32, KvType::kQ8_0}) {
      Case c{3, 1, 32, 1050, window};
      c.cache = type, c.exact = true, c.blocks = 17;
      const std::vector<Tensor> in = InputsOf(c, {c.n}, 21);
      const auto whole = Eval("CachedAttention", AttrsOf(c), in, 1, "reference");
      ASSERT_TRUE(whole.ok());
      for (const auto& [row, isa] : Ways()) {
        if (row == "reference") continue;   // what the others are held against
        Cached cached(c, row, isa), alone(c, row, isa);
        cached.Run(in, 0, 1035);
        alone.memory = cached.memory;
        const std::vector<float> got = cached.Run(in, 1035, 1050);
        const float* want = (*whole)[0].Data<float>() + 1035 * c.heads * c.dim;
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], want[i], c.tolerance()) << KvTypeName(type) << " " << row << " isa " << isa;
        std::vector<float> single;
        for (int64_t i = 1035; i < 1050; ++i) {
          const std::vector<float> y = alone.Run(in, i, i + 1);
          single.insert(single.end(), y.begin(), y.end());
        }
        EXPECT_TRUE(single == got) << "a row is the same alone and among others";
      }
    }
  }
}

// Values of one block as numbers: element d of token t of one head.
float ValueIn(const Cached& cached, int64_t head, int64_t t, int64_t d) {
  const Case& c = cached.c;
  const std::byte* values = cached.step.Values(cached.table[0], 0, head);
  const auto halves = [](const std::byte* p, int64_t i) {
    uint16_t bits;
    std::memcpy(&bits, p + i * 2, 2);
    return bits;
  };
  const int64_t at = t * c.dim + d;
  switch (c.cache) {
    case KvType::kF16: return F16BitsToF32(halves(values, at));
    case KvType::kBf16: return BF16BitsToF32(halves(values, at));
    case KvType::kF32: {
      float f;
      std::memcpy(&f, values + at * 4, 4);
      return f;
    }
    case KvType::kQ8_0:
      return static_cast<float>(static_cast<int8_t>(values[at])) * F16BitsToF32(halves(values + c.dim * 64, d / 32 * 64 + t));
  }
  return 0;
}

TEST(CachedAttention, WhatIsKeptIsWhatTheTypeHolds) {
  // Of the largest of 32: half a step of 1/127, and the rounding of its scale to f16.
  const std::map<KvType, float> most = {
      {KvType::kF16, 4.9e-4f}, {KvType::kBf16, 4e-3f}, {KvType::kF32, 0}, {KvType::kQ8_0, 0.5f / 127 + 4.9e-4f}};
  for (const auto& [type, error] : most) {
    Case c{2, 2, 64, 3};
    c.cache = type;
    std::vector<Tensor> in = InputsOf(c, {c.n}, 3);
    auto* v = in[2].MutableData<float>();
    for (int i = 0; i < 32; ++i) v[i] = 0, v[32 + i] = 1e-38f, v[64 + i] *= 1000;
    for (const auto& [row, isa] : Ways()) {
      Cached cached(c, row, isa);
      cached.Run(in, 0, c.n);
      for (int64_t i = 0; i < in[2].shape().num_elements(); ++i) {
        const int64_t first = i / 32 * 32;
        float largest = 0;
        for (int64_t j = first; j < first + 32; ++j) largest = std::max(largest, std::abs(v[j]));
        ASSERT_NEAR(ValueIn(cached, i % 128 / 64, i / 128, i % 64), v[i], std::max(largest * error, 1e-38f))
            << KvTypeName(type) << " " << row << " isa " << isa << " element " << i;
      }
    }
  }
}

TEST(CachedAttention, EveryInstructionSetKeepsTheSameBytes) {
  for (const KvType type : {KvType::kF16, KvType::kBf16, KvType::kF32, KvType::kQ8_0}) {
    Case c{6, 3, 32, 64};
    c.cache = type;
    std::vector<Tensor> in = InputsOf(c, {c.n}, 5);
    in.resize(3);   // not turned, so that keys are not rounded before
    auto* v = in[2].MutableData<float>();
    v[0] = v[32 + 20] = std::numeric_limits<float>::quiet_NaN(), v[64 + 3] = std::numeric_limits<float>::infinity();
    Cached reference(c, "reference", 0);
    reference.Run(in, 0, c.n);
    for (const auto& [row, isa] : Ways()) {
      Cached cached(c, row, isa);
      cached.Run(in, 0, c.n);
      EXPECT_FALSE(std::isfinite(ValueIn(cached, 0, 0, 0)));
      EXPECT_FALSE(std::isfinite(ValueIn(cached, 1, 0, 20)));
      EXPECT_FALSE(std::isfinite(ValueIn(cached, 2, 0, 3)));
      EXPECT_TRUE(cached.memory == reference.memory) << KvTypeName(type) << " " << row << " isa " << isa;
    }
  }
}

TEST(CachedAttention, SaysWhatIsWrong) {
  const Case c{4, 2, 16, 3};
  std::vector<Tensor> in = InputsOf(c, {c.n}, 1);
  Attrs attrs = AttrsOf(c);
  attrs.Set("kv_heads", int64_t{3});
  EXPECT_EQ(Eval("CachedAttention", attrs, in).status().code(), Code::kBadInput);
  attrs = AttrsOf(c);
  attrs.Set("cache", std::string("q8_0"));   // of 32, where a head has 16
  EXPECT_EQ(Eval("CachedAttention", attrs, in).status().code(), Code::kBadInput);
  attrs.Set("cache", std::string("q4_0"));
  EXPECT_EQ(Eval("CachedAttention", attrs, in).status().code(), Code::kBadInput);
  in[1] = RandomF32({3, 16}, 1);
  EXPECT_EQ(Eval("CachedAttention", AttrsOf(c), in).status().code(), Code::kBadInput);
  in[1] = RandomF32({2, 32}, 1);
  EXPECT_EQ(Eval("CachedAttention", AttrsOf(c), in).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels
