#include <gtest/gtest.h>

#include <limits>

#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

const char* const kOps[] = {"ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",
                            "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};

Tensor Axes(std::vector<int64_t> axes) {
  return Tensor::FromVector(Shape{static_cast<int64_t>(axes.size())}, axes);
}

TEST(Reduce, RowsMatchReference) {
  const Shape shapes[] = {{1}, {7}, {3, 5}, {2, 3, 4}, {2, 65, 9}, {3, 130, 67}, {2, 7, 5, 5}, {1, 300, 200}, {2, 16, 1, 33}};
  uint32_t seed = 1;
  for (const char* op : kOps) {
    for (const Shape& s : shapes) {
      // Positive and near 1, so that products and logarithms stay well conditioned.
      const Tensor x = RandomF32(s, ++seed, 0.97f, 1.03f);
      for (int64_t mask = 0; mask < (1 << s.rank()); ++mask) {
        std::vector<int64_t> axes;
        for (int i = 0; i < s.rank(); ++i) {
          if ((mask >> i & 1) != 0) axes.push_back(i - (i % 2) * s.rank());
        }
        Attrs attrs;
        attrs.Set("keepdims", int64_t{mask % 2});
        attrs.Set("noop_with_empty_axes", int64_t{seed % 2});
        EXPECT_EQ(CheckRows(op, attrs, {x, Axes(axes)}, 1, 2e-5, 1e-6), 2) << op;
      }
      CheckRows(op, Attrs(), {x}, 1, 2e-5, 1e-6);
    }
  }
  const Tensor big = RandomF32({3, 100000}, 3);
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceLogSumExp", "ReduceL2"}) CheckRows(op, Attrs(), {big}, 1, 1e-4, 1e-2);
}

TEST(Reduce, NanAndInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (int64_t n : {1, 5, 8, 16, 17, 63, 64, 65, 200}) {
    for (const float special : {nan, inf, -inf}) {
      for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
        Tensor x = RandomF32({2, n}, 5);
        x.MutableData<float>()[at] = special;
        for (const char* op : kOps) {
          CheckRows(op, Attrs(), {x, Axes({1})}, 1, 1e-5, 1e-5);
          CheckRows(op, Attrs(), {x, Axes({0})}, 1, 1e-5, 1e-5);
        }
        for (const char* op : {"ArgMax", "ArgMin"}) {
          for (int64_t last : {0, 1}) {
            Attrs attrs;
            attrs.Set("axis", int64_t{-1});
            attrs.Set("select_last_index", last);
            EXPECT_EQ(CheckRows(op, attrs, {x}, 1, 0, 0), 2);
          }
        }
      }
    }
  }
}

TEST(Reduce, AxesAroundAKeptOne) {
  for (const bool odd : {false, true}) {
    Tensor x = RandomF32({3, 5, 4, 33}, 8);
    if (odd) {
      x.MutableData<float>()[40] = std::numeric_limits<float>::quiet_NaN();
      x.MutableData<float>()[700] = std::numeric_limits<float>::infinity();
    }
    for (const char* op : kOps) {
      EXPECT_EQ(CheckRows(op, Attrs(), {x, Axes({0, 2, 3})}, 1, 1e-5, 1e-5), 2);
      EXPECT_EQ(CheckRows(op, Attrs(), {x, Axes({1, 3})}, 1, 1e-5, 1e-5), 2);
    }
  }
}

TEST(Reduce, ArgOfColumnsWithTiesAndNan) {
  for (int64_t width : {2, 7, 16, 17, 70}) {
    for (int64_t rows : {1, 2, 21}) {
      Tensor x = RandomF32({3, rows, width}, 9);
      float* p = x.MutableData<float>();
      for (int64_t i = 0; i < x.shape().num_elements(); ++i) {
        p[i] = std::round(p[i]);  // many ties
        if (i % 13 == 0) p[i] = std::numeric_limits<float>::quiet_NaN();
        if (i % 17 == 0) p[i] = i % 2 == 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
      }
      for (const char* op : {"ArgMax", "ArgMin"}) {
        for (int64_t last : {0, 1}) {
          for (int64_t axis : {0, 1}) {
            Attrs attrs;
            attrs.Set("axis", axis);
            attrs.Set("select_last_index", last);
            EXPECT_EQ(CheckRows(op, attrs, {x}, 1, 0, 0), 2);
          }
        }
      }
    }
  }
}

TEST(Reduce, ArgTiesFirstAndLast) {
  hw::Team team(1);
  const Tensor x = Tensor::FromVector<float>({1, 40}, std::vector<float>(40, 1.0f));
  const View in = x.view();
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (int64_t last : {0, 1}) {
      Attrs attrs;
      attrs.Set("axis", int64_t{1});
      attrs.Set("select_last_index", last);
      auto y = Evaluate(op, attrs, {&in, 1}, 1, hw::DetectIsa(), team);
      ASSERT_TRUE(y.ok());
      EXPECT_EQ((*y)[0].Data<int64_t>()[0], last == 0 ? 0 : 39);
    }
  }
}

TEST(Reduce, ElementsOfShapeVectorsStaySymbolic) {
  ValueInfo x;
  x.present = true;
  x.dtype = DType::kI64;
  x.shape = SymShape({Dim(3)});
  x.elements = std::vector<Dim>{Dim::Symbol("n"), Dim(4), Dim(2)};
  ValueInfo y;
  y.present = true;
  ASSERT_TRUE(InferShapes("ReduceProd", {Attrs(), {&x, 1}, {&y, 1}}).ok());
  ASSERT_TRUE(y.elements.has_value());
  EXPECT_EQ((*y.elements)[0].ToString(), "8*n");
}

TEST(Reduce, BadAxesAreErrors) {
  const Tensor x = RandomF32({2, 3}, 1);
  for (const auto& axes : {std::vector<int64_t>{2}, {-3}, {0, 0}, {1, -1}, {std::numeric_limits<int64_t>::min()}}) {
    EXPECT_EQ(Eval("ReduceSum", Attrs(), {x, Axes(axes)}).status().code(), Code::kBadInput);
  }
  Attrs attrs;
  attrs.Set("axis", int64_t{7});
  EXPECT_EQ(Eval("ArgMax", attrs, {x}).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels
