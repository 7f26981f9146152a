#include <limits>

#include "kernels/movement/testing.h"
#include "kernels/slice_pad/slice_pad.h"

namespace tenon::kernels::testing {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::vector<float> Slice1(int64_t start, int64_t end, int64_t step, int64_t n = 10) {
  return Values<float>(Eval("Slice", A(), {Iota(Shape({n})), I64({start}), I64({end}), I64({0}), I64({step})})[0]);
}

TEST(FieldCase, N08_SliceNegativeStep) {
  EXPECT_EQ(Slice1(9, 0, -1), (std::vector<float>{9, 8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(Slice1(9, 2, -1), (std::vector<float>{9, 8, 7, 6, 5, 4, 3}));
  EXPECT_EQ(Slice1(9, 0, -3), (std::vector<float>{9, 6, 3}));
  EXPECT_EQ(Slice1(0, 5, -1), std::vector<float>{});
  EXPECT_EQ(Slice1(-1, std::numeric_limits<int32_t>::max(), -1), std::vector<float>{});
  EXPECT_EQ(Slice1(-1, kMax, -1), std::vector<float>{});
  const std::vector<float> reversed = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  EXPECT_EQ(Slice1(-1, std::numeric_limits<int32_t>::min(), -1), reversed);
  EXPECT_EQ(Slice1(-1, kMin, -1), reversed);
  EXPECT_EQ(Slice1(kMax, kMin, -1), reversed);
  const auto rows = Eval("Slice", A(), {Iota(Shape({3, 4})), I64({2}), I64({0}), I64({0}), I64({-1})});
  EXPECT_EQ(rows[0].shape(), Shape({2, 4}));
  EXPECT_EQ(Values<float>(rows[0]), (std::vector<float>{8, 9, 10, 11, 4, 5, 6, 7}));
}

TEST(FieldCase, N08_SliceExtremeSteps) {
  EXPECT_EQ(Slice1(0, kMax, kMax), std::vector<float>{0});
  EXPECT_EQ(Slice1(-1, kMin, kMin), std::vector<float>{9});
  EXPECT_EQ(Slice1(kMin, kMax, 3), (std::vector<float>{0, 3, 6, 9}));
  EXPECT_EQ(Slice1(kMin, kMin, 1), std::vector<float>{});
  EXPECT_EQ(Slice1(0, kMax, 1, 0), std::vector<float>{});
  EXPECT_EQ(Slice1(-1, kMin, -1, 0), std::vector<float>{});
  EXPECT_EQ(Slice1(1000, kMax, 1), std::vector<float>{});
  EXPECT_EQ(Slice1(-3, kMax, 1), (std::vector<float>{7, 8, 9}));
}

// Brute force over all starts, ends and steps around the axis, against Python's definition of range(*slice.indices(n)).
TEST(Slice, AgreesWithPython) {
  for (int64_t n = 0; n <= 4; ++n) {
    for (int64_t start = -6; start <= 6; ++start) {
      for (int64_t end = -6; end <= 6; ++end) {
        for (int64_t step = -3; step <= 3; ++step) {
          if (step == 0) continue;
          const int64_t lower = step > 0 ? 0 : -1;
          const int64_t upper = step > 0 ? n : n - 1;
          const auto place = [&](int64_t v) { return v < 0 ? std::max(v + n, lower) : std::min(v, upper); };
          std::vector<float> want;
          for (int64_t i = place(start); step > 0 ? i < place(end) : i > place(end); i += step)
            want.push_back(static_cast<float>(i));
          EXPECT_EQ(Slice1(start, end, step, n), want) << n << ": " << start << ":" << end << ":" << step;
        }
      }
    }
  }
}

TEST(Slice, AxesAndDefaults) {
  const Tensor x = Iota<int32_t>(Shape({4, 5, 6}));
  const auto out = Eval("Slice", A(), {x, I64({1, 0}), I64({-1, 6}), I64({-2, 2}), I64({2, 4})});
  EXPECT_EQ(out[0].shape(), Shape({4, 2, 2}));
  EXPECT_EQ(Values<int32_t>(out[0])[0], 6);
  EXPECT_EQ(Values<int32_t>(out[0])[1], 10);
  EXPECT_EQ(Values<int32_t>(out[0])[2], 18);
  EXPECT_EQ(Eval("Slice", A(), {x, I64({1}), I64({3})})[0].shape(), Shape({2, 5, 6}));
}

TEST(Slice, Errors) {
  const Tensor x = Iota(Shape({4, 5}));
  EXPECT_BAD_INPUT(TryEval("Slice", A(), {x, I64({0}), I64({1}), I64({0}), I64({0})}), "step 0");
  EXPECT_BAD_INPUT(TryEval("Slice", A(), {x, I64({0}), I64({1}), I64({2})}), "outside [-2, 1]");
  EXPECT_BAD_INPUT(TryEval("Slice", A(), {x, I64({0, 0}), I64({1, 1}), I64({1, -1})}), "twice");
  EXPECT_BAD_INPUT(TryEval("Slice", A(), {x, I64({0, 0}), I64({1})}), "2 starts and 1 ends");
  EXPECT_BAD_INPUT(TryEval("Slice", A(), {x, I64({0, 0, 0}), I64({1, 1, 1})}), "for rank 2");
  EXPECT_BAD_INPUT(TryEval("Slice", A(), {x, Iota(Shape({1})), I64({1})}), "int32 or int64");
}

TEST(Slice, Symbols) {
  const Dim n = Dim::Symbol("n");
  const auto extent = [](Dim in, Dim start, Dim end, int64_t step = 1) {
    return Infer("Slice", A(),
                 {Sym(DType::kF32, {std::move(in), 4}), Symbols({std::move(start)}), Symbols({std::move(end)}), Symbols({0}),
                  Symbols({step})})[0]
        .shape.ToString();
  };
  EXPECT_EQ(extent(n, 0, kMax), "[n,4]");
  EXPECT_EQ(extent(n, 1, kMax), "[max(0,n-1),4]");
  EXPECT_EQ(extent(n, 0, -1), "[max(0,n-1),4]");
  EXPECT_EQ(extent(n, 0, n - Dim(1)), "[max(0,n-1),4]");
  EXPECT_EQ(extent(n, -1, kMax), "[min(1,n),4]");
  EXPECT_EQ(extent(n, 0, n), "[n,4]");
  EXPECT_EQ(extent(512, 0, n), "[min(512,n),4]");
  EXPECT_EQ(extent(Dim(2) * n, 0, kMax, 2), "[n,4]");
  EXPECT_EQ(extent(n, -1, kMin, -1), "[n,4]");
  EXPECT_EQ(extent(n, 5, 2, -1), "[?,4]");
  const auto part = Infer("Slice", A(), {Symbols({n, 3, Dim(2) * n}), Symbols({1}), Symbols({kMax}), Symbols({0})});
  EXPECT_EQ(ElementText(part[0]), "[3,2*n]");
}

}  // namespace
}  // namespace tenon::kernels::testing
