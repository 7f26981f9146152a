#include "kernels/block_matmul/block_matmul.h"

#include "base/half.h"
#include "kernels/kv_step.h"
#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

// Random weights of a format: bytes at random, with small f16 numbers wherever one might be a scale.
Tensor RandomBlocks(const BlockFormat& f, int64_t rows, int64_t k, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * f.RowBytes(k)));
  const auto put = [&](uint8_t* at, float v) {
    const uint16_t h = f.name == "bf16" ? F32ToBF16Bits(v) : F32ToF16Bits(v);
    std::memcpy(at, &h, 2);
  };
  std::uniform_real_distribution<float> draw(-0.1f, 0.1f);
  for (size_t b = 0; b < bytes.size(); b += static_cast<size_t>(f.bytes)) {
    uint8_t* block = bytes.data() + b;
    for (int i = 0; i < f.bytes; ++i) block[i] = static_cast<uint8_t>(rng());
    if (f.name == "f32") {
      const float v = draw(rng);
      std::memcpy(block, &v, 4);
    } else if (f.name == "mxfp4") {
      block[0] = static_cast<uint8_t>(118 + rng() % 4);
    } else if (f.name == "iq1_m") {
      for (int i = 0; i < 4; ++i) block[49 + 2 * i] &= 0x0f;   // the scale spread over these stays tiny
      block[55] = static_cast<uint8_t>(block[55] | 0x20);
    } else {
      for (int at : {0, 2, 52, 64, 80, 82, 108, 208}) {
        const bool scale = (at == 0 && f.name != "q2_k" && f.name != "q3_k" && f.name != "q6_k" && !f.name.starts_with("tq")) ||
                           (at == 2 && (f.name == "q4_1" || f.name == "q5_1" || f.name == "q4_k" || f.name == "q5_k")) ||
                           (at == 52 && f.name == "tq1_0") || (at == 64 && f.name == "tq2_0") ||
                           (at == 108 && f.name == "q3_k") || ((at == 80 || at == 82) && f.name == "q2_k") ||
                           (at == 208 && f.name == "q6_k");
        if (scale) put(block + at, draw(rng) * (f.elements == 256 ? 0.02f : 1.0f));
      }
    }
  }
  return Tensor::FromVector<uint8_t>({rows, f.RowBytes(k)}, bytes);
}

Attrs Formats(std::vector<std::string> names) {
  Attrs a;
  a.Set("formats", std::move(names));
  return a;
}

// Largest |got - want| against the largest |want|.
double WorstOf(const Tensor& got, const Tensor& want) {
  double worst = 0, most = 0;
  for (int64_t i = 0; i < want.shape().num_elements(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(got.Data<float>()[i]) - want.Data<float>()[i]));
    most = std::max(most, std::fabs(static_cast<double>(want.Data<float>()[i])));
  }
  return worst / std::max(most, 1e-30);
}

struct Level {
  const char* name;
  hw::IsaMask isa;
};
std::vector<Level> Levels() {
  std::vector<Level> levels;
  for (const char* name : {"baseline", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"}) {
    const auto isa = hw::IsaFromLevel(name);
    if (isa.ok() && hw::Covers(hw::DetectIsa(), *isa)) levels.push_back({name, *isa});
  }
  return levels;
}

void Check(const Attrs& attrs, const std::vector<Tensor>& in, double few, double many, const std::string& what) {
  hw::Team team(2);
  const auto views = Views(in);
  auto want = Evaluate("BlockMatMul", attrs, views, 1, hw::DetectIsa(), team, "reference");
  ASSERT_TRUE(want.ok()) << what << want.status().message();
  for (const Level& level : Levels()) {
    auto got = Evaluate("BlockMatMul", attrs, views, 1, level.isa, team, "BlockMatMul_packed");
    ASSERT_TRUE(got.ok()) << what << got.status().message();
    EXPECT_LE(WorstOf((*got)[0], (*want)[0]), in[0].shape()[0] <= 8 ? few : many) << what << " on " << level.name;
  }
}

TEST(BlockMatMul, EveryFormatAndInstructionSet) {
  for (const BlockFormat& f : BlockFormats()) {
    const int64_t k = f.elements == 256 ? 512 : 96;
    for (int64_t m : {1, 3, 6, 19}) {
      Check(Formats({std::string(f.name)}), {RandomF32({m, k}, 1), {}, RandomBlocks(f, 40, k, 2)}, 1e-4, 1e-2,
            fmt::format("{} m {}", f.name, m));
    }
  }
}

// Weights in formats `f`, `g` and `f` side by side, and of `f` gated by `g`.
void CheckParts(const std::string& f, const std::string& g, int64_t m) {
  const BlockFormat &a = *FindBlockFormat(f), &b = *FindBlockFormat(g);
  const Tensor x = RandomF32({m, 64}, 3);
  Check(Formats({f, g, f}),
        {x,
         RandomF32({m, 107}, 4),
         RandomBlocks(a, 33, 64, 5),
         RandomF32({33}, 6),
         RandomBlocks(b, 16, 64, 7),
         {},
         RandomBlocks(a, 58, 64, 8),
         RandomF32({58}, 9)},
        1e-4, 1e-2, fmt::format("{} and {} m {}", f, g, m));
  for (const char* gate : {"silu", "gelu"}) {
    Attrs attrs = Formats({f, g});
    attrs.Set("gate", std::string(gate));
    Check(attrs, {x, {}, RandomBlocks(a, 40, 64, 10), RandomF32({40}, 11), RandomBlocks(b, 40, 64, 12)}, 1e-4, 2e-2,
          fmt::format("{} {} {} m {}", gate, f, g, m));
  }
}

TEST(BlockMatMul, PartsBiasesResidualAndGates) {
  for (int64_t m : {1, 5, 40}) {
    CheckParts("q4_1", "q8_0", m);
    CheckParts("bf16", "f16", m);
    CheckParts("bf16", "bf16", m);
  }
}

// The packed row in a step that fills a cache, where the scores of rows `wanted` are asked for.
std::vector<float> InStep(const Attrs& attrs, const std::vector<Tensor>& in, hw::IsaMask isa,
                          const std::vector<int32_t>& wanted) {
  const auto views = Views(in);
  std::vector<ValueInfo> infos(in.size()), outs(1);
  for (size_t i = 0; i < in.size(); ++i) {
    if (!views[i].present()) continue;
    infos[i] = {in[i].dtype(), true, false, SymShape(in[i].shape()), i > 1 ? &views[i] : nullptr, {}};
  }
  outs[0].present = true;
  EXPECT_TRUE(InferShapes("BlockMatMul", {attrs, infos, outs}).ok());
  const Problem problem{"BlockMatMul", attrs, infos, outs, isa, 2};
  const auto choice = ChooseRow(problem, "BlockMatMul_packed");
  EXPECT_TRUE(choice.ok());
  const auto kernel = choice->row->make(problem);
  EXPECT_TRUE(kernel.ok());
  const int64_t m = in[0].shape()[0], n = outs[0].shape[1].value();
  Tensor y = Tensor::Zeros(DType::kF32, Shape({m, n})).value();
  std::vector<View> out_views = {y.view()};
  const auto configured = (*kernel)->Configure(views, out_views);
  EXPECT_TRUE(configured.ok());
  const auto scratch = Buffer::Allocate(configured->scratch_bytes + 64);
  std::vector<MutView> out = {y.mutable_view()};
  const KvSequence sequence{0, m, 0, nullptr, 0};
  KvStep step;
  step.sequences = {&sequence, 1};
  step.output_rows = wanted;
  hw::Team team(2);
  const Status status =
      (*kernel)->Run({views, out, configured->state.get(), static_cast<std::byte*>(scratch->data()), team, nullptr, &step});
  EXPECT_TRUE(status.ok()) << status.message();
  return {y.Data<float>(), y.Data<float>() + m * n};
}

// Numbers that eight bits with one scale for 32 hold exactly, some blocks with one that stands far out.
Tensor WholeNumbers(int64_t m, int64_t k) {
  std::mt19937 rng(21);
  std::vector<float> x(static_cast<size_t>(m * k));
  for (float& v : x) v = 0.25f * static_cast<float>(static_cast<int>(rng() % 253) - 126);
  for (size_t b = 0; b < x.size(); b += 32) {
    x[b + rng() % 16] = 0.25f * 127.0f;
    if (rng() % 3 == 0) x[b + 16 + rng() % 16] = rng() % 2 == 0 ? 700.0f : -700.0f;
  }
  return Tensor::FromVector<float>({m, k}, x);
}

TEST(BlockMatMul, RowsThatFillACacheAreExactInBytes) {
  hw::Team team(2);
  const auto check = [&](const Attrs& attrs, const std::vector<Tensor>& in, const std::string& what) {
    const auto want = Evaluate("BlockMatMul", attrs, Views(in), 1, hw::DetectIsa(), team, "reference");
    ASSERT_TRUE(want.ok()) << what << want.status().message();
    for (const Level& level : Levels()) {
      for (const std::vector<int32_t>& wanted : {std::vector<int32_t>{}, {18}, {7, 0, 7}}) {
        const Tensor got = Tensor::FromVector<float>((*want)[0].shape(), InStep(attrs, in, level.isa, wanted));
        // Elsewhere many rows are products of bf16; those whose scores are wanted are rounded to 16 bits.
        const bool bytes = hw::Covers(level.isa, hw::kAvx512Vnni) && !hw::Covers(level.isa, hw::kAmx);
        EXPECT_LE(WorstOf(got, (*want)[0]), !bytes           ? 1e-2
                                            : wanted.empty() ? 1e-5
                                                             : 1e-4)
            << what << " on " << level.name << ", " << wanted.size() << " wanted";
      }
    }
  };
  for (const BlockFormat& f : BlockFormats()) {
    if (f.elements == 1) continue;   // floats have no form in bytes
    const int64_t k = f.elements == 256 ? 512 : 96;
    check(Formats({std::string(f.name)}), {WholeNumbers(19, k), {}, RandomBlocks(f, 40, k, 2)}, std::string(f.name));
  }
  const BlockFormat &a = *FindBlockFormat("q4_k"), &b = *FindBlockFormat("q6_k"), &c = *FindBlockFormat("q8_0");
  check(Formats({"q4_k", "q6_k"}),
        {WholeNumbers(19, 512), RandomF32({19, 73}, 4), RandomBlocks(a, 33, 512, 5), {}, RandomBlocks(b, 40, 512, 7)},
        "two formats");
  Attrs gate = Formats({"q4_k", "q8_0"});
  gate.Set("gate", std::string("silu"));
  check(gate, {WholeNumbers(19, 512), {}, RandomBlocks(a, 40, 512, 5), {}, RandomBlocks(c, 40, 512, 7)}, "gate");
}

TEST(BlockMatMul, SaysWhatIsWrong) {
  const BlockFormat& f = *FindBlockFormat("q4_1");
  const Tensor w = RandomBlocks(f, 4, 64, 1), x = RandomF32({2, 64}, 2);
  EXPECT_EQ(Eval("BlockMatMul", Formats({"q9"}), {x, {}, w}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("BlockMatMul", Formats({"q4_1"}), {RandomF32({2, 32}, 2), {}, w}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("BlockMatMul", Formats({"q8_0"}), {x, {}, w}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("BlockMatMul", Formats({"q4_1"}), {x, RandomF32({2, 5}, 1), w}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("BlockMatMul", Formats({"q4_1"}), {x, {}, w, RandomF32({5}, 1)}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("BlockMatMul", Formats({"q4_1", "q4_1"}), {x, {}, w}).status().code(), Code::kBadInput);
}

TEST(BlockGather, TakesRowsAndRefusesOthers) {
  const BlockFormat& f = *FindBlockFormat("q4_1");
  const Tensor w = RandomBlocks(f, 4, 64, 1);
  Attrs attrs;
  attrs.Set("format", std::string("q4_1"));
  attrs.Set("scale", 2.0f);
  const auto y = Eval("BlockGather", attrs, {w, Tensor::FromVector<int64_t>({2}, {3, 0})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  std::vector<float> row(64);
  UnpackRow(f, w.Data<uint8_t>() + 3 * f.RowBytes(64), 64, row.data());
  for (size_t i = 0; i < row.size(); ++i) EXPECT_EQ((*y)[0].Data<float>()[i], 2 * row[i]);
  EXPECT_EQ(Eval("BlockGather", attrs, {w, Tensor::FromVector<int64_t>({1}, {4})}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("BlockGather", attrs, {w, Tensor::FromVector<int32_t>({1}, {-1})}).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels
