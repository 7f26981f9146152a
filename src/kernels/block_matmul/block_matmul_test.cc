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
  for (const char* name : {"baseline", "avx2", "avx512vnni", "amx"}) {
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

TEST(BlockMatMul, PartsBiasesResidualAndGates) {
  const BlockFormat &a = *FindBlockFormat("q4_1"), &b = *FindBlockFormat("q8_0");
  for (int64_t m : {1, 5, 40}) {
    const Tensor x = RandomF32({m, 64}, 3);
    Check(Formats({"q4_1", "q8_0", "q4_1"}),
          {x,
           RandomF32({m, 75}, 4),
           RandomBlocks(a, 33, 64, 5),
           RandomF32({33}, 6),
           RandomBlocks(b, 16, 64, 7),
           {},
           RandomBlocks(a, 26, 64, 8),
           RandomF32({26}, 9)},
          1e-4, 1e-2, fmt::format("parts m {}", m));
    for (const char* gate : {"silu", "gelu"}) {
      Attrs attrs = Formats({"q4_1", "q8_0"});
      attrs.Set("gate", std::string(gate));
      Check(attrs, {x, {}, RandomBlocks(a, 40, 64, 10), RandomF32({40}, 11), RandomBlocks(b, 40, 64, 12)}, 1e-4, 2e-2,
            fmt::format("{} m {}", gate, m));
    }
  }
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
