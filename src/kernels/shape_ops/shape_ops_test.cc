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

}  // namespace
}  // namespace tenon::kernels::testing
