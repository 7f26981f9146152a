#include <limits>

#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

using F = std::vector<float>;

TEST(FieldCase, N09_NegativeIndices) {
  const Tensor x = Iota(Shape({3, 4}));
  EXPECT_EQ(Values<float>(Eval("GatherElements", A("axis", 1), {x, Of<int64_t>({3, 2}, {-1, -1, -1, -1, -1, -1})})[0]),
            (F{3, 3, 7, 7, 11, 11}));
  EXPECT_EQ(Values<float>(Eval("GatherND", A(), {x, Of<int64_t>({2, 2}, {-1, -1, 0, -2})})[0]), (F{11, 2}));
  EXPECT_EQ(Values<float>(Eval("ScatterND", A(),
                               {*Tensor::Zeros(DType::kF32, Shape({3, 4})), Of<int64_t>({2, 1}, {-1, 0}),
                                Of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})})[0]),
            (F{5, 6, 7, 8, 0, 0, 0, 0, 1, 2, 3, 4}));
  EXPECT_EQ(
      Values<float>(Eval("OneHot", A(), {Tensor::Scalar<int64_t>(-1), Tensor::Scalar<int64_t>(5), Of<float>({2}, {0, 1})})[0]),
      (F{0, 0, 0, 0, 1}));
  EXPECT_EQ(Values<float>(Eval("Gather", A(), {x, I64({-3})})[0]), (F{0, 1, 2, 3}));
  EXPECT_EQ(
      Values<float>(Eval("ScatterElements", A("axis", 1), {x, Of<int32_t>({1, 2}, {-4, -1}), Of<float>({1, 2}, {9, 8})})[0]),
      (F{9, 1, 2, 8, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(FieldCase, N10_IndexOutOfRange) {
  const Tensor x = Iota(Shape({3, 4}));
  for (int64_t bad : {int64_t{4}, int64_t{-5}, int64_t{2147483647}, int64_t{-2147483648}, std::numeric_limits<int64_t>::min(),
                      std::numeric_limits<int64_t>::max()}) {
    const std::string text = "index " + std::to_string(bad) + " at position 1 is outside [-4, 3]";
    EXPECT_BAD_INPUT(TryEval("GatherElements", A("axis", 1), {x, Of<int64_t>({1, 2}, {0, bad})}), "GatherElements: " + text);
    EXPECT_BAD_INPUT(TryEval("GatherND", A(), {x, Of<int64_t>({1, 2}, {0, bad})}), "GatherND: " + text);
    EXPECT_BAD_INPUT(TryEval("ScatterND", A(), {x, Of<int64_t>({1, 2}, {0, bad}), Of<float>({1}, {7})}), "ScatterND: " + text);
    EXPECT_BAD_INPUT(TryEval("ScatterElements", A("axis", 1), {x, Of<int64_t>({1, 2}, {0, bad}), Of<float>({1, 2}, {7, 7})}),
                     "ScatterElements: " + text);
    // OneHot alone answers: ONNX defines an index out of range as a row without a hot element.
    EXPECT_EQ(Values<float>(Eval("OneHot", A(), {I64({bad}), Tensor::Scalar<int64_t>(4), Of<float>({2}, {0, 1})})[0]),
              (F{0, 0, 0, 0}));
  }
  EXPECT_BAD_INPUT(TryEval("GatherElements", A("axis", 1), {x, Of<int64_t>({4, 1}, {0, 0, 0, 0})}), "go beyond data");
  EXPECT_BAD_INPUT(TryEval("ScatterND", A(), {x, Of<int64_t>({1, 3}, {0, 0, 0}), Of<float>({1}, {7})}), "for data of rank 2");
  EXPECT_BAD_INPUT(TryEval("ScatterND", A(), {x, Of<int64_t>({1, 2}, {0, 0}), Of<float>({2}, {7, 7})}), "updates of shape 2");
  EXPECT_BAD_INPUT(TryEval("GatherND", A("batch_dims", 2), {x, Of<int64_t>({1, 2}, {0, 0})}), "batch_dims 2");
}

// Every axis, with indices smaller than the data, of both types: gathered and scattered against the definition.
TEST(GatherScatterElements, EveryAxis) {
  const Shape large({4, 6, 5}), small({3, 4, 3});
  std::vector<float> v(static_cast<size_t>(large.num_elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  const Tensor x = Tensor::FromVector<float>(large, v);
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<int64_t> index(static_cast<size_t>(small.num_elements()));
    std::vector<float> gathered, updates, scattered = v, added = v;
    for (size_t p = 0; p < index.size(); ++p) {
      index[p] = static_cast<int64_t>(p * 7 % static_cast<size_t>(2 * large[axis])) - large[axis];
      const auto i = static_cast<int64_t>(p);
      int64_t at[3] = {i / 12, i / 3 % 4, i % 3};
      at[axis] = index[p] < 0 ? index[p] + large[axis] : index[p];
      const auto k = static_cast<size_t>((at[0] * 6 + at[1]) * 5 + at[2]);
      gathered.push_back(v[k]);
      updates.push_back(static_cast<float>(1000 + i));
      scattered[k] = updates.back();
      added[k] += updates.back();
    }
    const Tensor by = Tensor::FromVector<float>(small, updates);
    const std::vector<int32_t> narrow(index.begin(), index.end());
    for (const Tensor& at : {Tensor::FromVector<int64_t>(small, index), Tensor::FromVector<int32_t>(small, narrow)}) {
      EXPECT_EQ(Values<float>(Eval("GatherElements", A("axis", axis), {x, at})[0]), gathered);
      EXPECT_EQ(Values<float>(Eval("ScatterElements", A("axis", axis), {x, at, by})[0]), scattered);
      const Attrs add = A("axis", axis, "reduction", std::string("add"));
      EXPECT_EQ(Values<float>(Eval("ScatterElements", add, {x, at, by})[0]), added);
    }
  }
}

TEST(ScatterND, Reductions) {
  const Tensor x = Of<float>({3}, {1, 2, 3});
  const Tensor at = Of<int64_t>({3, 1}, {0, 0, 2});
  const Tensor by = Of<float>({3}, {5, 7, -1});
  const auto run = [&](const char* r) {
    return Values<float>(Eval("ScatterND", A("reduction", std::string(r)), {x, at, by})[0]);
  };
  EXPECT_EQ(run("none"), (F{7, 2, -1}));
  EXPECT_EQ(run("add"), (F{13, 2, 2}));
  EXPECT_EQ(run("mul"), (F{35, 2, -3}));
  EXPECT_EQ(run("max"), (F{7, 2, 3}));
  EXPECT_EQ(run("min"), (F{1, 2, -1}));
  EXPECT_BAD_INPUT(TryEval("ScatterND", A("reduction", std::string("sum")), {x, at, by}), "reduction 'sum'");
  const auto half = Eval("ScatterElements", A("reduction", std::string("add")),
                         {Of<Half>({1}, {Half(1.f)}), I64({0}), Of<Half>({1}, {Half(0.5f)})});
  EXPECT_EQ(static_cast<float>(half[0].Data<Half>()[0]), 1.5f);
}

TEST(GatherND, BatchesAndSlices) {
  const Tensor x = Iota(Shape({2, 2, 2}));
  EXPECT_EQ(Values<float>(Eval("GatherND", A("batch_dims", 1), {x, Of<int64_t>({2, 1}, {1, 0})})[0]), (F{2, 3, 4, 5}));
  EXPECT_EQ(Eval("GatherND", A(), {x, Of<int64_t>({2, 1, 2}, {0, 1, 1, 0})})[0].shape(), Shape({2, 1, 2}));
  const Dim n = Dim::Symbol("n");
  EXPECT_EQ(Infer("GatherND", A(), {Sym(DType::kF32, {4, n, 7}), Sym(DType::kI64, {n, 2})})[0].shape.ToString(), "[n,7]");
}

}  // namespace
}  // namespace tenon::kernels::testing
