#include <limits>

#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

using F = std::vector<float>;

Attrs Mode(const char* m) {
  return A("mode", std::string(m));
}

TEST(FieldCase, N06_PadReflectOutOfBounds) {
  // (a) the largest reflection that fits, and one more.
  EXPECT_EQ(Values<float>(Eval("Pad", Mode("reflect"), {Iota(Shape({4})), I64({3, 3})})[0]), (F{3, 2, 1, 0, 1, 2, 3, 2, 1, 0}));
  EXPECT_BAD_INPUT(TryEval("Pad", Mode("reflect"), {Iota(Shape({4})), I64({4, 0})}), "at most 3 is allowed");
  EXPECT_BAD_INPUT(TryEval("Pad", Mode("reflect"), {Iota(Shape({4})), I64({-3, 3})}), "at most 0 is allowed");
  // (b), (c)
  EXPECT_BAD_INPUT(TryEval("Pad", Mode("reflect"), {Iota(Shape({3, 2})), I64({0, 2, 0, 0})}),
                   "pads 2, 0 of axis 1 go beyond its extent 2");
  EXPECT_BAD_INPUT(TryEval("Pad", Mode("reflect"), {Iota(Shape({8, 20, 17, 13})), I64({3, 0, 4, 1, 11, 1, 8, 0})}), "axis 0");
  // (d)
  EXPECT_EQ(Values<float>(Eval("Pad", Mode("reflect"), {Iota(Shape({3, 4})), I64({1, 0, 0, 0})})[0]),
            (F{4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  // A crop and a reflection together: crop first.
  EXPECT_EQ(Values<float>(Eval("Pad", Mode("reflect"), {Iota(Shape({4})), I64({-1, 2})})[0]), (F{1, 2, 3, 2, 1}));
  // At compile time, with numbers in the shape.
  ValueInfo pads = Symbols({5, 0});
  std::vector<ValueInfo> in = {Sym(DType::kF32, {4}), pads};
  std::vector<ValueInfo> out(1);
  out[0].present = true;
  EXPECT_EQ(InferShapes("Pad", {Mode("reflect"), in, out}).code(), Code::kBadInput);
}

TEST(FieldCase, N07_NegativePadsCrop) {
  const auto out = Eval("Pad", Mode("constant"), {Iota(Shape({1, 1, 4, 4})), I64({0, 0, -1, -1, 0, 0, -1, -1})});
  EXPECT_EQ(out[0].shape(), Shape({1, 1, 2, 2}));
  EXPECT_EQ(Values<float>(out[0]), (F{5, 6, 9, 10}));
  EXPECT_EQ(Values<float>(Eval("Pad", A(), {Iota(Shape({4})), I64({-1, 2}), Tensor::Scalar(7.f)})[0]), (F{1, 2, 3, 7, 7}));
  EXPECT_EQ(Values<float>(Eval("Pad", A(), {Iota(Shape({2})), I64({-2, 1})})[0]), (F{0}));
  EXPECT_EQ(Eval("Pad", A(), {Iota(Shape({2})), I64({-1, -1})})[0].shape(), Shape({0}));
  EXPECT_BAD_INPUT(TryEval("Pad", A(), {Iota(Shape({2})), I64({-2, -1})}), "crop more than the 2 elements of axis 0");
  EXPECT_BAD_INPUT(TryEval("Pad", A(), {Iota(Shape({2})), I64({-3, 9})}), "crop more");
  const int64_t min = std::numeric_limits<int64_t>::min();
  EXPECT_BAD_INPUT(TryEval("Pad", A(), {Iota(Shape({2})), I64({min, min})}), "crop more");
  EXPECT_BAD_INPUT(TryEval("Pad", A(), {Iota(Shape({2})), I64({std::numeric_limits<int64_t>::max(), 1})}), "too large");
}

TEST(Pad, Modes) {
  const Tensor x = Iota(Shape({2, 3}));
  EXPECT_EQ(Values<float>(Eval("Pad", Mode("edge"), {x, I64({0, 1, 1, 2})})[0]),
            (F{0, 0, 1, 2, 2, 2, 3, 3, 4, 5, 5, 5, 3, 3, 4, 5, 5, 5}));
  EXPECT_EQ(Values<float>(Eval("Pad", Mode("wrap"), {Iota(Shape({3})), I64({4, 2})})[0]), (F{2, 0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(Values<float>(Eval("Pad", A(), {x, I64({1, 0}), Tensor::Scalar(9.f), I64({-1})})[0]), (F{9, 0, 1, 2, 9, 3, 4, 5}));
  // Inner axes kept whole move as blocks.
  const auto nhwc = Eval("Pad", A(), {Iota(Shape({1, 2, 2, 3})), I64({1, 1, 0, 1}), Tensor(), I64({1, 2})});
  EXPECT_EQ(nhwc[0].shape(), Shape({1, 3, 4, 3}));
  EXPECT_EQ(Values<float>(nhwc[0])[15], 0.f);
  EXPECT_EQ(Values<float>(nhwc[0])[12 + 3 + 5], 5.f);
  const auto s = Eval("Pad", A(), {Tensor::FromStrings(Shape({1}), {"a"}), I64({1, 0})});
  EXPECT_EQ(Values<std::string>(s[0]), (std::vector<std::string>{"", "a"}));
  EXPECT_BAD_INPUT(TryEval("Pad", Mode("edge"), {Iota(Shape({0})), I64({1, 0})}), "nothing to pad it with");
  EXPECT_BAD_INPUT(TryEval("Pad", Mode("mirror"), {x, I64({0, 0, 0, 0})}), "mode 'mirror'");
  EXPECT_BAD_INPUT(TryEval("Pad", A(), {x, I64({0, 0, 0})}), "3 pads for 2 axes");
  EXPECT_BAD_INPUT(TryEval("Pad", A(), {x, I64({0, 0, 0, 0}), Tensor(), I64({1, -1})}), "twice");
  const Dim n = Dim::Symbol("n");
  EXPECT_EQ(Infer("Pad", A(), {Sym(DType::kF32, {n, 4}), Symbols({1, 0, 1, -1})})[0].shape.ToString(), "[n+2,3]");
}

}  // namespace
}  // namespace tenon::kernels::testing
