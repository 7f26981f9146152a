#include <cmath>
#include <limits>

#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

TEST(ShapeOp, RangeOfAxes) {
  const Tensor x = Iota(Shape({2, 3, 4}));
  const auto shape = [&](const Attrs& a) { return Values<int64_t>(Eval("Shape", a, {x})[0]); };
  using V = std::vector<int64_t>;
  EXPECT_EQ(shape(A()), (V{2, 3, 4}));
  EXPECT_EQ(shape(A("start", 1)), (V{3, 4}));
  EXPECT_EQ(shape(A("start", -1)), (V{4}));
  EXPECT_EQ(shape(A("end", -1)), (V{2, 3}));
  EXPECT_EQ(shape(A("start", 2, "end", 1)), V{});
  EXPECT_EQ(shape(A("start", -10, "end", 10)), (V{2, 3, 4}));
  const Dim n = Dim::Symbol("n");
  EXPECT_EQ(ElementText(Infer("Shape", A(), {Sym(DType::kF32, {n, Dim::Unknown(), 3})})[0]), "[n,?,3]");
  EXPECT_EQ(Values<int64_t>(Eval("Size", A(), {x})[0]), V{24});
}

using F = std::vector<float>;
using L = std::vector<int64_t>;

TEST(Range, CountsAndElements) {
  const auto ints = [](int64_t a, int64_t b, int64_t d) {
    return Values<int64_t>(Eval("Range", A(), {Tensor::Scalar(a), Tensor::Scalar(b), Tensor::Scalar(d)})[0]);
  };
  EXPECT_EQ(ints(0, 10, 3), (L{0, 3, 6, 9}));
  EXPECT_EQ(ints(10, 4, -2), (L{10, 8, 6}));
  EXPECT_EQ(ints(3, 3, 1), L{});
  EXPECT_EQ(ints(5, 1, 1), L{});
  EXPECT_EQ(Values<float>(Eval("Range", A(), {Tensor::Scalar(0.f), Tensor::Scalar(1.f), Tensor::Scalar(0.4f)})[0]),
            (F{0, 0.4f, 0.8f}));
  const int64_t max = std::numeric_limits<int64_t>::max();
  EXPECT_BAD_INPUT(TryEval("Range", A(), {Tensor::Scalar<int64_t>(0), Tensor::Scalar(max), Tensor::Scalar<int64_t>(1)}),
                   "too many");
  EXPECT_BAD_INPUT(TryEval("Range", A(), {Tensor::Scalar<int64_t>(0), Tensor::Scalar(max), Tensor::Scalar<int64_t>(0)}),
                   "delta is 0");
  EXPECT_BAD_INPUT(
      TryEval("Range", A(), {Tensor::Scalar(0.f), Tensor::Scalar(std::numeric_limits<float>::quiet_NaN()), Tensor::Scalar(1.f)}),
      "too many");
  const Dim n = Dim::Symbol("n");
  const auto scalar = [](Dim d) {
    ValueInfo v = Sym(DType::kI64, {});
    v.elements = std::vector<Dim>{std::move(d)};
    return v;
  };
  EXPECT_EQ(Infer("Range", A(), {scalar(0), scalar(n), scalar(1)})[0].shape.ToString(), "[n]");
  EXPECT_EQ(ElementText(Infer("Range", A(), {scalar(2), scalar(5), scalar(1)})[0]), "[2,3,4]");
}

TEST(ConstantOfShape, ValuesAndShapes) {
  EXPECT_EQ(Values<float>(Eval("ConstantOfShape", A(), {I64({2, 2})})[0]), (F{0, 0, 0, 0}));
  EXPECT_EQ(Values<int64_t>(Eval("ConstantOfShape", A("value", I64({7})), {I64({3})})[0]), (L{7, 7, 7}));
  EXPECT_EQ(Eval("ConstantOfShape", A("value", I64({7})), {I64({})})[0].shape(), Shape());
  EXPECT_BAD_INPUT(TryEval("ConstantOfShape", A(), {I64({-1})}), "negative");
  EXPECT_BAD_INPUT(TryEval("ConstantOfShape", A(), {I64({int64_t{1} << 40, int64_t{1} << 40})}), "too many elements");
  EXPECT_BAD_INPUT(TryEval("ConstantOfShape", A("value", I64({7, 8})), {I64({3})}), "exactly 1");
  const Dim n = Dim::Symbol("n");
  EXPECT_EQ(Infer("ConstantOfShape", A(), {Symbols({n, 3})})[0].shape.ToString(), "[n,3]");
  EXPECT_EQ(ElementText(Infer("ConstantOfShape", A("value", I64({-1})), {Symbols({2})})[0]), "[-1,-1]");
}

TEST(ExpandTile, Broadcast) {
  EXPECT_EQ(Values<float>(Eval("Expand", A(), {Of<float>({2, 1}, {1, 2}), I64({2, 1, 3})})[0]),
            (F{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(Eval("Expand", A(), {Iota(Shape({3, 4})), I64({1})})[0].shape(), Shape({3, 4}));
  EXPECT_BAD_INPUT(TryEval("Expand", A(), {Iota(Shape({3})), I64({2})}), "does not broadcast");
  EXPECT_BAD_INPUT(TryEval("Expand", A(), {Iota(Shape({1})), I64({-1})}), "negative");
  EXPECT_EQ(Values<float>(Eval("Tile", A(), {Of<float>({2, 1}, {1, 2}), I64({2, 2})})[0]), (F{1, 1, 2, 2, 1, 1, 2, 2}));
  EXPECT_EQ(Eval("Tile", A(), {Iota(Shape({2, 3})), I64({0, 5})})[0].shape(), Shape({0, 15}));
  EXPECT_BAD_INPUT(TryEval("Tile", A(), {Iota(Shape({2})), I64({int64_t{1} << 62})}), "");
  EXPECT_BAD_INPUT(TryEval("Tile", A(), {Iota(Shape({2})), I64({1, 1})}), "2 repeats for rank 1");
  const Dim n = Dim::Symbol("n");
  EXPECT_EQ(Infer("Expand", A(), {Sym(DType::kF32, {1, n}), Symbols({n, 1})})[0].shape.ToString(), "[n,n]");
  EXPECT_EQ(Infer("Tile", A(), {Sym(DType::kF32, {2, n}), Symbols({n, 3})})[0].shape.ToString(), "[2*n,3*n]");
}

TEST(CumSum, DirectionsAndTypes) {
  const Tensor x = Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Values<float>(Eval("CumSum", A(), {x, Tensor::Scalar<int64_t>(-1)})[0]), (F{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(Values<float>(Eval("CumSum", A("exclusive", 1, "reverse", 1), {x, Tensor::Scalar<int32_t>(0)})[0]),
            (F{4, 5, 6, 0, 0, 0}));
  EXPECT_EQ(Values<float>(Eval("CumProd", A(), {x, Tensor::Scalar<int64_t>(1)})[0]), (F{1, 2, 6, 4, 20, 120}));
  EXPECT_BAD_INPUT(TryEval("CumSum", A(), {x, Tensor::Scalar<int64_t>(2)}), "outside [-2, 1]");
}

// Column by column against the definition, over every axis and type of step.
TEST(CumSum, InnerAxes) {
  const int64_t dims[] = {3, 5, 1030};
  const Shape shape({dims[0], dims[1], dims[2]});
  std::vector<float> v(static_cast<size_t>(shape.num_elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 7919 % 257) * 0.37f - 40;
  const Tensor x = Tensor::FromVector<float>(shape, v);
  for (int64_t axis : {0, 1, 2}) {
    const int64_t inner = axis == 0 ? dims[1] * dims[2] : axis == 1 ? dims[2] : 1;
    for (int64_t exclusive : {0, 1}) {
      for (int64_t reverse : {0, 1}) {
        const auto got =
            Values<float>(Eval("CumSum", A("exclusive", exclusive, "reverse", reverse), {x, Tensor::Scalar(axis)})[0]);
        for (int64_t start = 0; start < shape.num_elements(); ++start) {
          if (start / inner % dims[axis] != 0) continue;
          float sum = 0;
          for (int64_t k = 0; k < dims[axis]; ++k) {
            const auto i = static_cast<size_t>(start + (reverse != 0 ? dims[axis] - 1 - k : k) * inner);
            const float next = sum + v[i];
            ASSERT_EQ(got[i], exclusive != 0 ? sum : next) << axis << exclusive << reverse << " " << i;
            sum = next;
          }
        }
      }
    }
  }
}

TEST(Trilu, DiagonalsFarOutside) {
  const Tensor x = Of<int64_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto run = [&](int64_t upper, int64_t k) {
    return Values<int64_t>(Eval("Trilu", A("upper", upper), {x, Tensor::Scalar(k)})[0]);
  };
  EXPECT_EQ(run(1, 0), (L{1, 2, 3, 0, 5, 6}));
  EXPECT_EQ(run(0, 0), (L{1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(run(1, -1), (L{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(run(1, std::numeric_limits<int64_t>::max()), (L{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(run(0, std::numeric_limits<int64_t>::max()), (L{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(run(0, std::numeric_limits<int64_t>::min()), (L{0, 0, 0, 0, 0, 0}));
}

TEST(ReverseSequence, LengthsAreChecked) {
  const Tensor x = Iota(Shape({3, 2}));
  EXPECT_EQ(Values<float>(Eval("ReverseSequence", A(), {x, I64({3, 2})})[0]), (F{4, 3, 2, 1, 0, 5}));
  EXPECT_BAD_INPUT(TryEval("ReverseSequence", A(), {x, I64({4, 2})}), "outside [0, 3]");
  EXPECT_BAD_INPUT(TryEval("ReverseSequence", A("batch_axis", 0, "time_axis", 0), {x, I64({1, 2})}), "allowed are 0 and 1");
}

TEST(OneHot, DepthIsChecked) {
  const Tensor off_on = Of<float>({2}, {0, 1});
  EXPECT_BAD_INPUT(TryEval("OneHot", A(), {I64({0}), Tensor::Scalar<int64_t>(-1), off_on}), "depth -1");
  EXPECT_BAD_INPUT(TryEval("OneHot", A(), {I64({0}), Tensor::Scalar(1e30f), off_on}), "depth");
  EXPECT_EQ(Values<float>(Eval("OneHot", A("axis", 0), {Of<float>({2}, {1, NAN}), Tensor::Scalar(2.f), off_on})[0]),
            (F{0, 0, 1, 0}));
}

}  // namespace
}  // namespace tenon::kernels::testing
