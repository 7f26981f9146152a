// Einsum and Det: ONNX's own cases, the product form against the plain loop over many equations, broken equations.
#include "kernels/linalg/linalg.h"

#include "kernels/golden_test_util.h"
#include "kernels/row_check.h"

namespace tenon::kernels::linalg {
namespace {

TEST(Linalg, OnnxNodeCases) {
  testing::RunGoldens("linalg.golden", 4);
}

TEST(Linalg, EinsumRowsAgree) {
  struct Case {
    const char* equation;
    std::vector<Shape> shapes;
  };
  const Case cases[] = {
      {"ij,jk->ik", {{3, 4}, {4, 5}}},
      {"ij,jk", {{3, 4}, {4, 5}}},
      {"ij,jk->ki", {{3, 4}, {4, 5}}},
      {"bhqd,bhkd->bhqk", {{2, 3, 5, 8}, {2, 3, 7, 8}}},
      {"bqhd,bkhd->bhqk", {{2, 5, 3, 8}, {2, 7, 3, 8}}},
      {"bhqk,bkhd->bqhd", {{2, 3, 5, 7}, {2, 7, 3, 8}}},
      {"...ij,...jk->...ik", {{2, 3, 4}, {5, 1, 4, 6}}},
      {"...ij,jk", {{2, 3, 4}, {4, 6}}},
      {"ii->i", {{5, 5}}},
      {"ii", {{5, 5}}},
      {"ij->ji", {{3, 4}}},
      {"ij->", {{3, 4}}},
      {"ij,ij->ij", {{3, 4}, {3, 4}}},
      {"ij,ij->", {{3, 4}, {3, 4}}},
      {"i,j->ij", {{3}, {4}}},
      {"i,i", {{6}, {6}}},
      {"ijk,jil->kl", {{3, 4, 5}, {4, 3, 2}}},
      {"ij,k->i", {{3, 4}, {5}}},
      {"iij,jk->ik", {{3, 3, 4}, {4, 2}}},
      {"ab,bc,cd,de->ae", {{2, 3}, {3, 4}, {4, 5}, {5, 6}}},
      {"ab,cb,b->ac", {{2, 3}, {4, 3}, {3}}},
      {"ij,jk->ik", {{3, 1}, {4, 5}}},
      {" a b , b -> a ", {{2, 3}, {3}}},
      {"xYz,zY->x", {{2, 3, 4}, {4, 3}}},
      {"", {{}}},
      {",a->a", {{}, {3}}},
      {"ij,jk->ik", {{0, 4}, {4, 5}}},
      {"ij,jk->ik", {{3, 0}, {0, 5}}},
      {"...->...", {{2, 3}}},
      {"i...->...", {{2, 3, 4}}},
  };
  for (const Case& c : cases) {
    Attrs attrs;
    attrs.Set("equation", std::string(c.equation));
    std::vector<Tensor> in;
    for (size_t i = 0; i < c.shapes.size(); ++i) in.push_back(RandomF32(c.shapes[i], static_cast<uint32_t>(i + 1)));
    EXPECT_EQ(CheckRows("Einsum", attrs, in, 1, 1e-5, 1e-5), 1) << c.equation;
  }
}

TEST(Linalg, EinsumOfIntegersWraps) {
  Attrs attrs;
  attrs.Set("equation", std::string("i,i"));
  const Tensor a = Tensor::FromVector<int8_t>({2}, {100, 100});
  const auto y = Eval("Einsum", attrs, {a, a});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ((*y)[0].Data<int8_t>()[0], static_cast<int8_t>(20000));
}

TEST(Linalg, RefusesBrokenEquations) {
  const Tensor x = RandomF32({3, 4}, 1);
  for (const char* equation : {"ij", "ij,jk,kl->i", "ij,jk->iq", "ij,jk->ii", "i.j,jk", "ij,jk->i->k", "i1,jk", "ijk,jk",
                               "....ij,jk", "ij,ij->ij->", "i,jk->ijk", "......,..."}) {
    Attrs attrs;
    attrs.Set("equation", std::string(equation));
    const auto y = Eval("Einsum", attrs, {x, x});
    ASSERT_FALSE(y.ok()) << equation;
    EXPECT_EQ(y.status().code(), Code::kBadInput) << equation;
  }
  Attrs attrs;
  attrs.Set("equation", std::string("ij,jk"));
  EXPECT_EQ(Eval("Einsum", attrs, {x, x}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("Det", {}, {x}).status().code(), Code::kBadInput);
}

TEST(Linalg, DetOfASingularMatrixIsZero) {
  const auto y = Eval("Det", {}, {Tensor::FromVector<float>({2, 2}, {1, 2, 2, 4})});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ((*y)[0].Data<float>()[0], 0.0f);
  EXPECT_EQ((*y)[0].shape().rank(), 0);
}

TEST(Linalg, InverseTimesTheMatrixIsTheUnit) {
  // A leading zero forces a pivot.
  const auto y = Eval("Inverse", {}, {Tensor::FromVector<float>({1, 2, 2}, {0, 2, 4, 6})});
  ASSERT_TRUE(y.ok());
  const float want[] = {-0.75f, 0.25f, 0.5f, 0};
  for (int i = 0; i < 4; ++i) EXPECT_EQ((*y)[0].Data<float>()[i], want[i]);
  EXPECT_EQ(Eval("Inverse", {}, {RandomF32({2, 3}, 1)}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("Inverse", {}, {RandomF32({3}, 1)}).status().code(), Code::kBadInput);
  EXPECT_TRUE(Eval("Inverse", {}, {RandomF32({0, 3, 3}, 1)}).ok());
}

}  // namespace
}  // namespace tenon::kernels::linalg
