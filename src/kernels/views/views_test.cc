#include "kernels/golden_test_util.h"
#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

const Dim n = Dim::Symbol("n");
const Dim s = Dim::Symbol("s");

TEST(Views, BitCastOnnxNodeCases) {
  testing::RunGoldens("bitcast.golden", 8);
}

TEST(Views, ReshapeNumbers) {
  const Tensor x = Iota(Shape({2, 3, 4}));
  EXPECT_EQ(Eval("Reshape", A(), {x, I64({4, -1})})[0].shape(), Shape({4, 6}));
  EXPECT_EQ(Eval("Reshape", A(), {x, I64({0, -1, 0})})[0].shape(), Shape({2, 3, 4}));
  EXPECT_EQ(Eval("Reshape", A(), {x, I64({0, 12})})[0].shape(), Shape({2, 12}));
  EXPECT_EQ(Eval("Reshape", A(), {Iota(Shape({1})), I64({})})[0].shape(), Shape());
  EXPECT_EQ(Eval("Reshape", A("allowzero", 1), {Iota(Shape({0, 3})), I64({3, 0})})[0].shape(), Shape({3, 0}));
  EXPECT_EQ(Eval("Reshape", A(), {Iota(Shape({0, 3})), I64({0, -1})})[0].shape(), Shape({0, 3}));
  EXPECT_EQ(Values<float>(Eval("Reshape", A(), {x, I64({24})})[0]), Values<float>(x));
  EXPECT_BAD_INPUT(TryEval("Reshape", A(), {x, I64({5, -1})}), "do not divide");
  EXPECT_BAD_INPUT(TryEval("Reshape", A(), {x, I64({5, 5})}), "24 elements");
  EXPECT_BAD_INPUT(TryEval("Reshape", A(), {x, I64({-1, -1})}), "more than one -1");
  EXPECT_BAD_INPUT(TryEval("Reshape", A(), {x, I64({-2, 4})}), "extent -2");
  EXPECT_BAD_INPUT(TryEval("Reshape", A(), {x, I64({24, 1, 1, 0})}), "lacks");
  EXPECT_BAD_INPUT(TryEval("Reshape", A(), {x, I64({int64_t{1} << 62, 4})}), "too many elements");
  EXPECT_BAD_INPUT(TryEval("Reshape", A(), {x, I64(std::vector<int64_t>(13, 1))}), "allowed are 12");
}

TEST(Views, ReshapeSymbols) {
  const auto shape = [](std::vector<Dim> in, std::vector<Dim> to) {
    return Infer("Reshape", A(), {Sym(DType::kF32, std::move(in)), Symbols(std::move(to))})[0].shape.ToString();
  };
  EXPECT_EQ(shape({n, s, 768}, {0, -1, 12, 64}), "[n,s,12,64]");
  EXPECT_EQ(shape({n, s, 768}, {n, s, 12, 64}), "[n,s,12,64]");
  EXPECT_EQ(shape({n, s, 12, 64}, {n, s, -1}), "[n,s,768]");
  EXPECT_EQ(shape({n, 3, s + Dim(1), s + Dim(1)}, {n, 3, -1}), "[n,3,2*s+s*s+1]");
  EXPECT_EQ(shape({n, s + Dim(1), 8}, {-1, s + Dim(1), 4, 2}), "[n,s+1,4,2]");
  EXPECT_EQ(shape({n, s}, {-1, 2}), "[floor(n*s/2),2]");
  EXPECT_EQ(shape({n, s}, {Dim::Unknown(), 2}), "[?,2]");
  ValueInfo list = Sym(DType::kI64, {4});
  EXPECT_EQ(Infer("Reshape", A(), {Sym(DType::kF32, {n}), list})[0].shape.ToString(), "[?,?,?,?]");
  EXPECT_EQ(ElementText(Infer("Reshape", A(), {Symbols({n}), Symbols(std::vector<Dim>{})})[0]), "[n]");
}

TEST(Views, SqueezeUnsqueezeFlatten) {
  const Tensor x = Iota(Shape({1, 3, 1, 2}));
  EXPECT_EQ(Eval("Squeeze", A(), {x})[0].shape(), Shape({3, 2}));
  EXPECT_EQ(Eval("Squeeze", A(), {x, I64({-2})})[0].shape(), Shape({1, 3, 2}));
  EXPECT_BAD_INPUT(TryEval("Squeeze", A(), {x, I64({1})}), "extent 3, not 1");
  EXPECT_BAD_INPUT(TryEval("Squeeze", A(), {x, I64({4})}), "outside [-4, 3]");
  EXPECT_EQ(Eval("Unsqueeze", A(), {Iota(Shape({3, 2})), I64({-1, 0})})[0].shape(), Shape({1, 3, 2, 1}));
  EXPECT_BAD_INPUT(TryEval("Unsqueeze", A(), {x, I64({0, 0})}), "twice");
  EXPECT_BAD_INPUT(TryEval("Unsqueeze", A(), {x, I64({6})}), "outside [-5, 4]");
  EXPECT_EQ(Eval("Flatten", A("axis", 0), {x})[0].shape(), Shape({1, 6}));
  EXPECT_EQ(Eval("Flatten", A("axis", -1), {x})[0].shape(), Shape({3, 2}));
  EXPECT_EQ(Eval("Flatten", A("axis", 4), {x})[0].shape(), Shape({6, 1}));
  EXPECT_BAD_INPUT(TryEval("Flatten", A("axis", 5), {x}), "outside [-4, 4]");
  const auto scalar = Infer("Squeeze", A(), {Symbols({n}), Symbols({0})});
  EXPECT_EQ(ElementText(scalar[0]), "[n]");
  EXPECT_EQ(scalar[0].shape.ToString(), "[]");
}

TEST(Views, KeepStringsAndPackedTypes) {
  const Tensor t = Tensor::FromStrings(Shape({2}), {"a", "some longer string than fits inside"});
  EXPECT_EQ(Values<std::string>(Eval("Reshape", A(), {t, I64({1, 2})})[0]), Values<std::string>(t));
  auto packed = Tensor::Zeros(DType::kI4, Shape({3}));
  packed->MutableData<uint8_t>()[0] = 0x21;
  packed->MutableData<uint8_t>()[1] = 0x03;
  const auto out = Eval("Unsqueeze", A(), {*packed, I64({0})});
  EXPECT_EQ(out[0].Data<uint8_t>()[0], 0x21);
  EXPECT_EQ(out[0].Data<uint8_t>()[1], 0x03);
}

}  // namespace
}  // namespace tenon::kernels::testing
