#include <random>

#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

// Any bytes: operators that only move elements must keep every bit.
Tensor RandomBits(DType dtype, const Shape& shape, uint32_t seed) {
  std::mt19937 rng(seed);
  Tensor t = *Tensor::Zeros(dtype, shape);
  if (dtype == DType::kString) {
    for (int64_t i = 0; i < shape.num_elements(); ++i) t.MutableData<std::string>()[i] = std::to_string(rng());
    return t;
  }
  for (size_t i = 0; i < t.bytes(); ++i) t.MutableData<uint8_t>()[i] = static_cast<uint8_t>(rng());
  const int used = static_cast<int>(shape.num_elements() * DTypeBits(dtype) % 8);
  if (used != 0) t.MutableData<uint8_t>()[t.bytes() - 1] &= static_cast<uint8_t>((1 << used) - 1);
  return t;
}

void CheckRows(const Tensor& x, const Attrs& attrs) {
  const Tensor want = Eval("Transpose", attrs, {x}, 1, "reference")[0];
  for (const Row& row : FindOp("Transpose")->rows) {
    if (!hw::Covers(hw::DetectIsa(), row.needs)) continue;
    const Tensor got = Eval("Transpose", attrs, {x}, 1, row.name)[0];
    EXPECT_TRUE(SameTensor(got.view(), want.view())) << row.name << " " << DTypeName(x.dtype()) << " " << x.shape().ToString();
  }
}

TEST(Transpose, RowsAgreeOnAllTypesAndShapes) {
  const DType types[] = {DType::kF32,  DType::kU8, DType::kBool,   DType::kF16, DType::kI64,
                         DType::kC128, DType::kI4, DType::kString, DType::kU2,  DType::kBF16};
  for (DType t : types) {
    uint32_t seed = 7;
    for (const Shape& s : {Shape({5, 7}), Shape({16, 16}), Shape({33, 50}), Shape({1, 9}), Shape({0, 3}), Shape({129, 70})}) {
      CheckRows(RandomBits(t, s, seed++), A());
    }
    const Tensor x = RandomBits(t, Shape({3, 17, 5, 4}), seed);
    std::vector<int64_t> perm = {0, 1, 2, 3};
    do {
      CheckRows(x, A("perm", perm));
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
}

TEST(Transpose, LargeWithThreads) {
  CheckRows(RandomBits(DType::kF32, Shape({2, 70, 130, 40}), 1), A("perm", std::vector<int64_t>{0, 2, 3, 1}));
  CheckRows(RandomBits(DType::kF32, Shape({2, 130, 40, 70}), 2), A("perm", std::vector<int64_t>{0, 3, 1, 2}));
  CheckRows(RandomBits(DType::kF32, Shape({4, 90, 12, 32}), 3), A("perm", std::vector<int64_t>{0, 2, 1, 3}));
  CheckRows(RandomBits(DType::kF32, Shape({1, 3, 200, 300}), 4), A("perm", std::vector<int64_t>{0, 2, 3, 1}));
  for (const Shape& s : {Shape({2, 3, 7, 9}), Shape({1, 3, 4, 4}), Shape({1, 3, 1, 17}), Shape({1, 3, 201, 300})}) {
    for (DType t : {DType::kF32, DType::kU8}) CheckRows(RandomBits(t, s, 5), A("perm", std::vector<int64_t>{0, 2, 3, 1}));
  }
}

TEST(Transpose, Definition) {
  EXPECT_EQ(Values<float>(Eval("Transpose", A(), {Iota(Shape({2, 3}))}, 1, "reference")[0]),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(Eval("Transpose", A("perm", std::vector<int64_t>{1, 2, 0}), {Iota(Shape({2, 3, 4}))})[0].shape(), Shape({3, 4, 2}));
  EXPECT_EQ(Eval("Transpose", A(), {Iota(Shape())})[0].shape(), Shape());
}

TEST(Transpose, Errors) {
  const Tensor x = Iota(Shape({2, 3}));
  EXPECT_BAD_INPUT(TryEval("Transpose", A("perm", std::vector<int64_t>{0, 0}), {x}), "no permutation");
  EXPECT_BAD_INPUT(TryEval("Transpose", A("perm", std::vector<int64_t>{0, 2}), {x}), "no permutation");
  EXPECT_BAD_INPUT(TryEval("Transpose", A("perm", std::vector<int64_t>{0, 1, 2}), {x}), "3 entries for an input of rank 2");
}

}  // namespace
}  // namespace tenon::kernels::testing
