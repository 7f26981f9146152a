// Every f32 row of the matrix product family against the reference, on edge and random shapes.
#include "kernels/gemm/testing.h"
#include "kernels/matmul/matmul.h"

namespace tenon::kernels::matmul {
namespace {

using testing::CheckRows;
using testing::Random;

TEST(MatMulRows, EdgesOfTilesAndPanels) {
  std::mt19937 rng(1);
  for (int64_t n : {1, 7, 8, 9, 15, 16, 17, 24, 31, 33, 48, 63, 64, 65, 80, 100, 129, 145}) {
    for (int64_t m : {1, 2, 5, 6, 7, 8, 11, 13, 25}) {
      const int64_t k = 1 + (m * 7 + n) % 40;
      CheckRows("MatMul", {}, {Random({m, k}, rng), Random({k, n}, rng)}, k, fmt::format("{}x{}x{}", m, n, k));
      if (HasFailure()) return;
    }
  }
}

TEST(MatMulRows, DeepAndLarge) {
  std::mt19937 rng(2);
  for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{3, 40, 9000}, {130, 130, 300}, {1, 512, 512}, {700, 17, 64}}) {
    CheckRows("MatMul", {}, {Random({m, k}, rng), Random({k, n}, rng)}, k, fmt::format("{}x{}x{}", m, n, k));
  }
}

TEST(MatMulRows, RanksAndBatches) {
  std::mt19937 rng(3);
  const std::pair<Shape, Shape> cases[] = {{{5}, {5}},
                                           {{5}, {5, 7}},
                                           {{3, 5}, {5}},
                                           {{2, 3, 5}, {5}},
                                           {{5}, {2, 5, 3}},
                                           {{2, 3, 5}, {5, 4}},
                                           {{4, 3, 5}, {4, 5, 16}},
                                           {{2, 1, 3, 5}, {3, 5, 32}},
                                           {{3, 5}, {7, 5, 20}},
                                           {{6, 1, 9, 5}, {1, 1, 5, 40}},
                                           {{0, 5}, {5, 3}},
                                           {{3, 0}, {0, 4}},
                                           {{2, 3, 5}, {2, 5, 0}},
                                           {{0, 3, 5}, {0, 5, 4}},
                                           {{2, 1, 5}, {1, 5, 4}}};
  for (const auto& [a, b] : cases) {
    CheckRows("MatMul", {}, {Random(a, rng), Random(b, rng)}, 5, a.ToString() + " by " + b.ToString());
  }
}

TEST(MatMulRows, GemmAddendsAndTransposes) {
  std::mt19937 rng(4);
  for (int t = 0; t < 4; ++t) {
    for (float beta : {1.0F, 0.5F}) {
      Attrs attrs;
      attrs.Set("transA", int64_t{t & 1});
      attrs.Set("transB", int64_t{t >> 1});
      attrs.Set("alpha", t == 2 ? 1.0F : -1.5F);
      attrs.Set("beta", beta);
      const Tensor a = Random((t & 1) != 0 ? Shape{19, 13} : Shape{13, 19}, rng);
      const Tensor b = Random((t >> 1) != 0 ? Shape{48, 19} : Shape{19, 48}, rng);
      CheckRows("Gemm", attrs, {a, b}, 30, "no C");
      for (const Shape& c : {Shape{}, Shape{1}, Shape{48}, Shape{1, 48}, Shape{13, 1}, Shape{13, 48}, Shape{1, 1}}) {
        CheckRows("Gemm", attrs, {a, b, Random(c, rng)}, 30, "C " + c.ToString());
      }
    }
  }
}

TEST(MatMulRows, FusedActivations) {
  std::mt19937 rng(5);
  for (const char* name :
       {"", "Relu", "Clip", "HardSwish", "HardSigmoid", "Sigmoid", "Silu", "Gelu", "GeluTanh", "LeakyRelu", "Tanh"}) {
    Attrs attrs;
    attrs.Set("activation", std::string(name));
    if (name == std::string("Clip")) attrs.Set("activation_params", std::vector<float>{-0.5F, 1.5F});
    if (name == std::string("LeakyRelu")) attrs.Set("activation_params", std::vector<float>{0.1F});
    for (bool post : {false, true}) {
      if (post) {
        attrs.Set("post_scale", 1.5F);
        attrs.Set("post_shift", -0.25F);
      }
      const Tensor a = Random({2, 9, 30}, rng);
      const Tensor b = Random({30, 37}, rng);
      CheckRows("FusedMatMul", attrs, {a, b, Random({37}, rng), Random({2, 9, 37}, rng)}, 40, name);
      CheckRows("FusedMatMul", attrs, {a, b, Tensor(), Random({2, 9, 37}, rng)}, 40, name);
    }
  }
}

TEST(MatMulRows, DeepWithResidual) {
  std::mt19937 rng(8);
  CheckRows("FusedMatMul", {}, {Random({9, 7001}, rng), Random({7001, 35}, rng), Random({35}, rng), Random({9, 35}, rng)}, 7001,
            "deep");
}

TEST(MatMulRows, FusedTransposesAndBatches) {
  std::mt19937 rng(6);
  for (int t = 0; t < 4; ++t) {
    Attrs attrs;
    attrs.Set("transA", int64_t{t & 1});
    attrs.Set("transB", int64_t{t >> 1});
    attrs.Set("alpha", 0.125F);
    const Tensor a = Random((t & 1) != 0 ? Shape{3, 2, 20, 33} : Shape{3, 2, 33, 20}, rng);
    const Tensor b = Random((t >> 1) != 0 ? Shape{3, 1, 50, 20} : Shape{3, 1, 20, 50}, rng);
    CheckRows("FusedMatMul", attrs, {a, b, Random({50}, rng), Random({3, 2, 33, 50}, rng)}, 20, fmt::format("trans {}", t));
  }
}

TEST(MatMulRows, RowsDoNotDependOnTheBatch) {
  std::mt19937 rng(7);
  const Tensor a = Random({17, 70}, rng);
  const Tensor b = Random({70, 100}, rng);
  for (const Row& row : FindOp("MatMul")->rows) {
    if (!hw::Covers(hw::DetectIsa(), row.needs)) continue;
    auto all = testing::EvalRow("MatMul", {}, {a, b}, row.name, 2, true);
    if (!all.ok() && all.status().code() == Code::kUnsupported) continue;
    ASSERT_TRUE(all.ok());
    for (int64_t r = 0; r < 17; ++r) {
      const Tensor one =
          Tensor::FromVector<float>({1, 70}, std::vector<float>(a.Data<float>() + r * 70, a.Data<float>() + r * 70 + 70));
      auto got = testing::EvalRow("MatMul", {}, {one, b}, row.name, 1, true);
      ASSERT_TRUE(got.ok());
      EXPECT_EQ(std::memcmp(got->Data<float>(), all->Data<float>() + r * 100, 400), 0) << row.name << " row " << r;
    }
  }
}

}  // namespace
}  // namespace tenon::kernels::matmul
