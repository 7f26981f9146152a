#include <gtest/gtest.h>

#include <limits>

#include "kernels/row_check.h"

namespace tenon::kernels {
namespace {

TEST(Softmax, RowsMatchReference) {
  uint32_t seed = 0;
  for (const Shape& s :
       {Shape{1}, {5}, {3, 8}, {2, 17}, {4, 33, 3}, {2, 5, 70}, {3, 1000}, {2, 6, 64}, {700, 3}, {0, 4}, {2, 3, 129}}) {
    for (int axis = -s.rank(); axis < s.rank(); ++axis) {
      Attrs attrs;
      attrs.Set("axis", int64_t{axis});
      for (const char* op : {"Softmax", "LogSoftmax"}) {
        EXPECT_EQ(CheckRows(op, attrs, {RandomF32(s, ++seed, -6, 6)}, 1, 3e-6, 1e-6), 2);
        EXPECT_EQ(CheckRows(op, attrs, {RandomF32(s, ++seed, -300, 300)}, 1, 3e-5, 1e-6), 2);
      }
    }
  }
}

TEST(Softmax, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const float special : {-inf, inf, nan, -3.4e38f}) {
    for (int64_t n : {1, 2, 8, 19, 64}) {
      Tensor x = RandomF32({n, n}, 4);
      x.MutableData<float>()[n / 2] = special;
      for (int64_t axis : {0, 1}) {
        Attrs attrs;
        attrs.Set("axis", axis);
        CheckRows("Softmax", attrs, {x}, 1, 3e-6, 1e-7);
        EXPECT_EQ(CheckRows("Hardmax", attrs, {x}, 1, 0, 0), 2);
      }
    }
  }
  // -inf is a mask: exactly 0.
  auto y = Eval("Softmax", Attrs(), {Tensor::FromVector<float>({4}, {1, -inf, 1, -inf})});
  ASSERT_TRUE(y.ok());
  const float* p = (*y)[0].Data<float>();
  EXPECT_EQ(p[0], 0.5f);
  EXPECT_EQ(p[1], 0.0f);
  EXPECT_EQ(p[3], 0.0f);
}

TEST(Softmax, BadAxisIsAnError) {
  Attrs attrs;
  attrs.Set("axis", int64_t{2});
  EXPECT_EQ(Eval("Softmax", attrs, {RandomF32({2, 2}, 1)}).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels
