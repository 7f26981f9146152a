#include <limits>

#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

TEST(Gather, RowsAndElements) {
  const Tensor x = Iota(Shape({3, 4}));
  EXPECT_EQ(Values<float>(Eval("Gather", A(), {x, I64({2, -3})})[0]), (std::vector<float>{8, 9, 10, 11, 0, 1, 2, 3}));
  const auto out = Eval("Gather", A("axis", 1), {x, Of<int32_t>({2, 1}, {-1, 0})});
  EXPECT_EQ(out[0].shape(), Shape({3, 2, 1}));
  EXPECT_EQ(Values<float>(out[0]), (std::vector<float>{3, 0, 7, 4, 11, 8}));
  EXPECT_EQ(Eval("Gather", A(), {x, Tensor::Scalar<int64_t>(1)})[0].shape(), Shape({4}));
  EXPECT_EQ(Eval("Gather", A(), {Iota(Shape({0, 4})), I64({})})[0].shape(), Shape({0, 4}));
  const Tensor s = Tensor::FromStrings(Shape({2}), {"a", "b"});
  EXPECT_EQ(Values<std::string>(Eval("Gather", A(), {s, I64({1, 1, 0})})[0]), (std::vector<std::string>{"b", "b", "a"}));
}

TEST(Gather, LargeWithThreads) {
  const Tensor table = Iota(Shape({1000, 96}));
  std::vector<int64_t> ids(5000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * 37 % 1000);
  const auto out = Values<float>(Eval("Gather", A(), {table, I64(ids)})[0]);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(out[i * 96 + 5], static_cast<float>(ids[i] * 96 + 5));
  const auto cols = Values<float>(Eval("Gather", A("axis", 1), {table, I64({3, -96})})[0]);
  for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(cols[2 * i], static_cast<float>(i * 96 + 3));
}

TEST(FieldCase, N10_GatherOutOfRange) {
  const Tensor x = Iota(Shape({3, 4}));
  for (int64_t bad : {int64_t{3}, int64_t{-4}, int64_t{2147483647}, int64_t{-2147483648}, std::numeric_limits<int64_t>::min(),
                      std::numeric_limits<int64_t>::max()}) {
    EXPECT_BAD_INPUT(TryEval("Gather", A(), {x, I64({0, bad})}), "position 1 is outside [-3, 2]");
    EXPECT_BAD_INPUT(TryEval("Gather", A(), {x, I64({0, bad})}), "Gather: index " + std::to_string(bad));
  }
  // More indices than the rule looks at: the kernel finds it.
  std::vector<int64_t> many(1000, 1);
  many[777] = 3;
  EXPECT_BAD_INPUT(TryEval("Gather", A(), {x, I64(many)}), "Gather: index 3 at position 777 is outside [-3, 2]");
  EXPECT_BAD_INPUT(TryEval("Gather", A(), {Iota(Shape({0, 4})), I64({0})}), "extent 0");
}

TEST(Gather, Symbols) {
  const Dim n = Dim::Symbol("n");
  EXPECT_EQ(Infer("Gather", A(), {Sym(DType::kF32, {30522, 384}), Sym(DType::kI64, {n, 7})})[0].shape.ToString(), "[n,7,384]");
  ValueInfo index = Sym(DType::kI64, {});
  index.elements = std::vector<Dim>{-1};
  const auto out = Infer("Gather", A(), {Symbols({3, n}), index});
  EXPECT_EQ(ElementText(out[0]), "[n]");
  EXPECT_EQ(out[0].shape.ToString(), "[]");
}

}  // namespace
}  // namespace tenon::kernels::testing
