#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

TEST(Concat, AxesAndTypes) {
  const auto out = Eval("Concat", A("axis", -1), {Iota(Shape({2, 1})), Iota(Shape({2, 2})), Iota(Shape({2, 0}))});
  EXPECT_EQ(out[0].shape(), Shape({2, 3}));
  EXPECT_EQ(Values<float>(out[0]), (std::vector<float>{0, 0, 1, 1, 2, 3}));
  const auto s =
      Eval("Concat", A("axis", 0), {Tensor::FromStrings(Shape({1}), {"a"}), Tensor::FromStrings(Shape({2}), {"b", "c"})});
  EXPECT_EQ(Values<std::string>(s[0]), (std::vector<std::string>{"a", "b", "c"}));
  const auto big = Eval("Concat", A("axis", 1), {Iota(Shape({3, 40, 999})), Iota(Shape({3, 2, 999}))});
  EXPECT_EQ(big[0].shape(), Shape({3, 42, 999}));
  EXPECT_EQ(Values<float>(big[0])[41 * 999 + 42 * 999], 999.f + 2 * 999);
}

TEST(Concat, Errors) {
  EXPECT_BAD_INPUT(TryEval("Concat", A("axis", 0), {Iota(Shape({2, 1})), Iota(Shape({2, 2}))}), "extent 2 at axis 1");
  EXPECT_BAD_INPUT(TryEval("Concat", A("axis", 2), {Iota(Shape({2, 1}))}), "outside [-2, 1]");
  EXPECT_BAD_INPUT(TryEval("Concat", A("axis", 0), {Iota(Shape({2})), I64({1})}), "int64 while others are float32");
  EXPECT_BAD_INPUT(TryEval("Concat", A("axis", 0), {Iota(Shape({2})), Iota(Shape({2, 1}))}), "rank 2 while others have 1");
}

TEST(Concat, Symbols) {
  const Dim n = Dim::Symbol("n");
  const Dim m = Dim::Symbol("m");
  EXPECT_EQ(Infer("Concat", A("axis", 1), {Sym(DType::kF32, {n, m}), Sym(DType::kF32, {n, 3})})[0].shape.ToString(), "[n,m+3]");
  EXPECT_EQ(ElementText(Infer("Concat", A("axis", 0), {Symbols({n, 2}), Sym(DType::kI64, {1}), Symbols({m})})[0]), "[n,2,?,m]");
}

TEST(Split, SizesAndEqualParts) {
  const Tensor x = Iota(Shape({2, 5}));
  auto out = Eval("Split", A("axis", 1), {x, I64({1, 4})}, 2);
  EXPECT_EQ(Values<float>(out[0]), (std::vector<float>{0, 5}));
  EXPECT_EQ(Values<float>(out[1]), (std::vector<float>{1, 2, 3, 4, 6, 7, 8, 9}));
  out = Eval("Split", A("axis", -1, "num_outputs", 3), {x}, 3);
  EXPECT_EQ(out[0].shape(), Shape({2, 2}));
  EXPECT_EQ(Values<float>(out[2]), (std::vector<float>{4, 9}));
  EXPECT_BAD_INPUT(TryEval("Split", A("axis", 1), {x, I64({1, 3})}, 2), "add up to 4");
  EXPECT_BAD_INPUT(TryEval("Split", A("axis", 1), {x, I64({-1, 6})}, 2), "negative");
  EXPECT_BAD_INPUT(TryEval("Split", A("axis", 1, "num_outputs", 4), {x}, 4), "does not split");
  EXPECT_BAD_INPUT(TryEval("Split", A("axis", 1, "num_outputs", 3), {x}, 2), "num_outputs is 3");
}

TEST(Split, Symbols) {
  const Dim n = Dim::Symbol("n");
  auto out = Infer("Split", A("axis", 0, "num_outputs", 2), {Sym(DType::kF32, {Dim(2) * n})}, 2);
  EXPECT_EQ(out[0].shape.ToString(), "[n]");
  EXPECT_EQ(out[1].shape.ToString(), "[n]");
  out = Infer("Split", A("axis", 0), {Symbols({n, 7, 9}), Symbols({1, 2})}, 2);
  EXPECT_EQ(ElementText(out[0]), "[n]");
  EXPECT_EQ(ElementText(out[1]), "[7,9]");
}

}  // namespace
}  // namespace tenon::kernels::testing
