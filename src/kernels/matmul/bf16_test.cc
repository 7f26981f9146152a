// Every bf16 row of the matrix product family against the reference, on edge shapes and all mixes of types.
#include "kernels/gemm/bf16_testing.h"
#include "kernels/matmul/matmul.h"

namespace tenon::kernels::matmul {
namespace {

using testing::CheckBf16Rows;
using testing::Random;

TEST(MatMulBf16, EdgesOfTilesAndPanels) {
  std::mt19937 rng(1);
  for (int64_t m : {1, 2, 5, 12, 13, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65}) {
    for (int64_t n : {1, 15, 16, 17, 24, 25, 32, 33, 55, 64, 70}) {
      const int64_t k = (m + n) % 3 == 0 ? 32 * (1 + m % 3) : 1 + (m * 7 + n) % 70;
      CheckBf16Rows("MatMul", {}, {Random({m, k}, rng), Random({k, n}, rng)}, k, fmt::format("{}x{}x{}", m, n, k));
      if (HasFailure()) return;
    }
  }
}

TEST(MatMulBf16, DeepAndLarge) {
  std::mt19937 rng(2);
  for (auto [m, n, k] :
       {std::tuple<int64_t, int64_t, int64_t>{3, 40, 9000}, {130, 130, 320}, {1, 512, 512}, {700, 17, 64}, {600, 33, 1000}}) {
    CheckBf16Rows("MatMul", {}, {Random({m, k}, rng), Random({k, n}, rng)}, k, fmt::format("{}x{}x{}", m, n, k));
  }
}

TEST(MatMulBf16, DepthInParts) {
  std::mt19937 rng(7);
  for (int64_t m : {13, 49, 197, 300}) {
    for (int64_t n : {7, 24, 32, 83}) {
      const int64_t k = 500 + 13 * n + m % 2;
      CheckBf16Rows("MatMul", {}, {Random({m, k}, rng), Random({k, n}, rng)}, k, fmt::format("{}x{}x{}", m, n, k));
      if (HasFailure()) return;
    }
  }
}

TEST(MatMulBf16, RanksAndBatches) {
  std::mt19937 rng(3);
  const std::pair<Shape, Shape> cases[] = {{{5}, {5}},
                                           {{5}, {5, 7}},
                                           {{3, 5}, {5}},
                                           {{2, 3, 5}, {5, 4}},
                                           {{4, 3, 32}, {4, 32, 16}},
                                           {{2, 1, 3, 5}, {3, 5, 32}},
                                           {{3, 5}, {7, 5, 20}},
                                           {{6, 1, 9, 5}, {1, 1, 5, 40}},
                                           {{0, 5}, {5, 3}},
                                           {{3, 0}, {0, 4}},
                                           {{2, 3, 5}, {2, 5, 0}}};
  for (const auto& [a, b] : cases) {
    CheckBf16Rows("MatMul", {}, {Random(a, rng), Random(b, rng)}, 5, a.ToString() + " by " + b.ToString());
  }
}

TEST(MatMulBf16, GemmAddendsAndTransposes) {
  std::mt19937 rng(4);
  for (int t = 0; t < 4; ++t) {
    Attrs attrs;
    attrs.Set("transA", int64_t{t & 1});
    attrs.Set("transB", int64_t{t >> 1});
    attrs.Set("alpha", t == 2 ? 1.0F : -1.5F);
    attrs.Set("beta", t % 2 == 0 ? 1.0F : 0.5F);
    const Tensor a = Random((t & 1) != 0 ? Shape{19, 13} : Shape{13, 19}, rng);
    const Tensor b = Random((t >> 1) != 0 ? Shape{48, 19} : Shape{19, 48}, rng);
    CheckBf16Rows("Gemm", attrs, {a, b}, 30, "no C");
    for (const Shape& c : {Shape{}, Shape{1}, Shape{48}, Shape{1, 48}, Shape{13, 1}, Shape{13, 48}, Shape{1, 1}}) {
      CheckBf16Rows("Gemm", attrs, {a, b, Random(c, rng)}, 30, "C " + c.ToString());
    }
  }
}

TEST(MatMulBf16, FusedActivations) {
  std::mt19937 rng(5);
  for (const char* name :
       {"", "Relu", "Clip", "HardSwish", "HardSigmoid", "Sigmoid", "Silu", "Gelu", "GeluTanh", "LeakyRelu", "Tanh"}) {
    Attrs attrs;
    attrs.Set("activation", std::string(name));
    if (name == std::string("Clip")) attrs.Set("activation_params", std::vector<float>{-0.5F, 1.5F});
    for (bool post : {false, true}) {
      if (post) {
        attrs.Set("post_scale", 1.5F);
        attrs.Set("post_shift", -0.25F);
      }
      const Tensor a = Random({2, 9, 30}, rng);
      const Tensor b = Random({30, 37}, rng);
      CheckBf16Rows("FusedMatMul", attrs, {a, b, Random({37}, rng), Random({2, 9, 37}, rng)}, 40, name);
      CheckBf16Rows("FusedMatMul", attrs, {a, b, Tensor(), Random({2, 9, 37}, rng)}, 40, name);
    }
  }
}

TEST(MatMulBf16, FusedTransposesAndBatches) {
  std::mt19937 rng(6);
  for (int t = 0; t < 4; ++t) {
    Attrs attrs;
    attrs.Set("transA", int64_t{t & 1});
    attrs.Set("transB", int64_t{t >> 1});
    attrs.Set("alpha", 0.125F);
    for (int64_t k : {20, 64}) {
      const Tensor a = Random((t & 1) != 0 ? Shape{3, 2, k, 33} : Shape{3, 2, 33, k}, rng);
      const Tensor b = Random((t >> 1) != 0 ? Shape{3, 1, 50, k} : Shape{3, 1, k, 50}, rng);
      CheckBf16Rows("FusedMatMul", attrs, {a, b, Random({50}, rng), Random({3, 2, 33, 50}, rng)}, k, fmt::format("trans {}", t));
    }
  }
}

TEST(MatMulBf16, RowsDoNotDependOnTheBatch) {
  std::mt19937 rng(7);
  const Tensor a = testing::As(Random({49, 96}, rng), DType::kBF16);
  const Tensor b = testing::As(Random({96, 100}, rng), DType::kBF16);
  Attrs attrs;
  attrs.Set("output_dtype", static_cast<int64_t>(DType::kF32));
  for (const Row& row : FindOp("MatMul")->rows) {
    if (row.name.find("_bf16_") == std::string_view::npos || !hw::Covers(hw::DetectIsa(), row.needs)) continue;
    auto all = testing::EvalRow("MatMul", attrs, {a, b}, row.name, 2, true);
    ASSERT_TRUE(all.ok());
    for (int64_t r = 0; r < 49; ++r) {
      Tensor one = *Tensor::Allocate(DType::kBF16, {1, 96});
      std::memcpy(one.mutable_data(), static_cast<const char*>(a.data()) + r * 192, 192);
      auto got = testing::EvalRow("MatMul", attrs, {one, b}, row.name, 1, true);
      ASSERT_TRUE(got.ok());
      EXPECT_EQ(std::memcmp(got->Data<float>(), all->Data<float>() + r * 100, 400), 0) << row.name << " row " << r;
    }
  }
}

TEST(MatMulBf16, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1, -2, 0.5F, inf, -inf, std::numeric_limits<float>::quiet_NaN(), 3e38F, -0.0F};
  for (float v : values) {
    Tensor a = testing::As(Tensor::FromVector<float>({1, 2}, {v, 1}), DType::kBF16);
    Tensor b = testing::As(Tensor::FromVector<float>({2, 3}, {1, 2, -1, 0, 0, 1}), DType::kBF16);
    auto want = testing::EvalRow("MatMul", {}, {a, b}, "reference", 1, false);
    ASSERT_TRUE(want.ok());
    for (const Row& row : FindOp("MatMul")->rows) {
      if (row.name.find("_bf16_") == std::string_view::npos || !hw::Covers(hw::DetectIsa(), row.needs)) continue;
      auto got = testing::EvalRow("MatMul", {}, {a, b}, row.name, 1, true);
      ASSERT_TRUE(got.ok());
      for (int64_t i = 0; i < 3; ++i) {
        const double g = LoadAt(got->view(), i);
        const double w = LoadAt(want->view(), i);
        EXPECT_TRUE(g == w || (std::isnan(g) && std::isnan(w))) << row.name << " of " << v << ": " << g << ", want " << w;
      }
    }
  }
}

TEST(MatMulBf16, TypesThatAreRefused) {
  std::mt19937 rng(8);
  const Tensor a = Random({3, 4}, rng);
  const Tensor b = Random({4, 5}, rng);
  const auto code = [](const Attrs& attrs, const std::vector<Tensor>& in) {
    auto got = testing::EvalRow("MatMul", attrs, in, "", 1, true);
    return got.ok() ? Code::kOk : got.status().code();
  };
  EXPECT_EQ(code({}, {testing::As(a, DType::kBF16), b}), Code::kBadInput);
  for (int64_t wanted : {10, 16, -1, 99}) {
    Attrs attrs;
    attrs.Set("output_dtype", wanted);
    EXPECT_EQ(code(attrs, {a, b}), Code::kBadInput) << wanted;
  }
  Attrs half;
  half.Set("output_dtype", int64_t{10});
  EXPECT_EQ(code(half, {a, testing::As(b, DType::kBF16)}), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels::matmul
