// Every row of every elementwise operator against its reference, over the whole table: all types, edge values, and shapes that
// reach each way of broadcasting; with one thread and with two, and with each instruction set that the CPU has.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "kernels/elementwise/convert.h"
#include "kernels/elementwise/elementwise.h"

namespace tenon::kernels::elementwise {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI64, DType::kI32, DType::kI16,
                            DType::kI8,  DType::kU64, DType::kU32,  DType::kU16, DType::kU8,  DType::kBool};

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Random = std::mt19937;

Tensor RandomTensor(DType t, const Shape& shape, Random& random) {
  Tensor tensor = Tensor::Zeros(t, shape).value();
  std::vector<Word> words(static_cast<size_t>(shape.num_elements()));
  const float specials[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -2.5f, kInf, -kInf, kNan, 88.0f, -90.0f, 1e-30f};
  for (Word& w : words) {
    if (KindOf(t) == Kind::kReal) {
      const bool special = random() % 16 == 0;
      w.f = special ? specials[random() % std::size(specials)] : std::uniform_real_distribution<double>(-6, 6)(random);
    } else {
      w.i =
          static_cast<int64_t>(random() % 4 == 0 ? (uint64_t{random()} << 32 | random()) : random() % 17) - (IsSigned(t) ? 8 : 0);
      if (t == DType::kBool) w.u = random() % 2;
    }
  }
  Store(t, tensor.mutable_data(), 0, shape.num_elements(), words.data());
  return tensor;
}

std::vector<Word> Words(const Tensor& t) {
  std::vector<Word> out(static_cast<size_t>(t.shape().num_elements()));
  Load(t.dtype(), t.data(), 0, 1, t.shape().num_elements(), out.data());
  return out;
}

// Rows compute in f32 with functions of a few ulps and the reference in double; where a factor cancels (1 + erf) or flushes, the
// error is a fraction of the operand, which is at most 90 here when the result is not infinite.
double Tolerance(DType t, double want) {
  const double ulp = t == DType::kF16 ? 0x1p-10 : t == DType::kBF16 ? 0x1p-7 : 0x1p-23;
  const double smallest = t == DType::kF16 ? 0x1p-24 : 0x1p-126;
  return (t == DType::kF32 ? 5 : 1.01) * ulp * std::fabs(want) + 90 * 0x1p-25 + smallest;
}

::testing::AssertionResult Same(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype() || !(got.shape() == want.shape()))
    return ::testing::AssertionFailure() << "type or shape differs";
  const auto g = Words(got);
  const auto w = Words(want);
  const double largest = got.dtype() == DType::kF16 ? 65504 : 3.3895e38;
  for (size_t i = 0; i < g.size(); ++i) {
    bool same = g[i].u == w[i].u;
    if (!same && KindOf(got.dtype()) == Kind::kReal) {
      const double a = g[i].f;
      const double b = w[i].f;
      same = (std::isnan(a) && std::isnan(b)) || a == b || std::fabs(a - b) <= Tolerance(got.dtype(), b);
      // One side may round to infinity where the other just does not.
      if (std::isinf(a) != std::isinf(b))
        same = std::min(std::fabs(a), std::fabs(b)) >= largest * (1 - 0x1p-7) && (a > 0) == (b > 0);
    }
    if (!same)
      return ::testing::AssertionFailure() << "element " << i << ": got " << g[i].f << " (" << g[i].i << "), want " << w[i].f
                                           << " (" << w[i].i << ")";
  }
  return ::testing::AssertionSuccess();
}

Attrs AttrsFor(std::string_view op, int variant, DType cast_to) {
  Attrs a;
  if (op == "Gelu") a.Set("approximate", std::string(variant % 2 == 0 ? "none" : "tanh"));
  if (op == "BitShift") a.Set("direction", std::string(variant % 2 == 0 ? "LEFT" : "RIGHT"));
  if (op == "Mod") a.Set("fmod", int64_t{variant % 2});
  if (op == "Cast") a.Set("to", int64_t{static_cast<int>(cast_to)});
  if (variant % 3 == 1 && (op == "Elu" || op == "Celu" || op == "LeakyRelu" || op == "Swish" || op == "ThresholdedRelu"))
    a.Set("alpha", 0.75f);
  return a;
}

std::vector<std::vector<Shape>> ShapesFor(const OpKernels& op) {
  if (op.op == "Clip") return {{Shape{3, 77}, Shape{}, Shape{}}, {Shape{0}, Shape{}, Shape{1}}, {Shape{40000}, Shape{}}};
  if (op.op == "CastLike") return {{Shape{3, 77}, Shape{2}}};
  if (op.max_in == 1) return {{Shape{}}, {Shape{1}}, {Shape{0, 3}}, {Shape{7, 73}}, {Shape{40000}}};
  if (op.op == "Where")
    return {{Shape{2, 1, 9}, Shape{3, 9}, Shape{}}, {Shape{600, 70}, Shape{70}, Shape{600, 1}}, {Shape{5}, Shape{1}, Shape{1}}};
  std::vector<std::vector<Shape>> shapes = {
      {Shape{}, Shape{}},
      {Shape{5}, Shape{5}},
      {Shape{0, 4}, Shape{4}},
      {Shape{7, 73}, Shape{}},
      {Shape{7, 73}, Shape{73}},               // per last axis
      {Shape{7, 73}, Shape{7, 1}},             // per row
      {Shape{2, 6, 5, 9}, Shape{1, 6, 1, 1}},  // per channel
      {Shape{700, 3}, Shape{3}},               // short period
      {Shape{700, 3}, Shape{700, 1}},          // short rows
      {Shape{4, 60, 12}, Shape{60, 12}},       // long period
      {Shape{2, 1, 8, 3}, Shape{2, 50, 1, 3}},
      {Shape{40000}, Shape{40000}},
      {Shape{20, 2000}, Shape{2000}},
  };
  const size_t both = shapes.size();
  const bool one_way = op.op == "PRelu" || op.op == "BiasGelu" || op.op == "FastGelu";
  if (one_way) {
    std::erase_if(shapes, [](const auto& s) { return s[0].num_elements() < s[1].num_elements() || s[0] == Shape{2, 1, 8, 3}; });
  } else {
    for (size_t i = 0; i < both; ++i) shapes.push_back({shapes[i][1], shapes[i][0]});
  }
  if (op.max_in == kVariadic) {
    shapes.push_back({Shape{9}});
    shapes.push_back({Shape{7, 73}, Shape{73}, Shape{}, Shape{7, 1}, Shape{7, 73}});
    shapes.push_back(std::vector<Shape>(20, Shape{11}));
  }
  return shapes;
}

std::vector<DType> TypesOf(const OpKernels& op, DType t, size_t inputs) {
  std::vector<DType> types(inputs, t);
  if (op.op == "Where") types[0] = DType::kBool;
  return types;
}

class ElementwiseRows : public testing::TestWithParam<std::string> {};

TEST(ElementwiseTable, RowsAgreeWithReference) {
  const hw::IsaMask isa = hw::DetectIsa();
  const unsigned seed = 20261129;
  Random random(seed);
  hw::Team one(1);
  hw::Team two(2);
  std::set<std::string_view> seen;
  for (const OpKernels& op : Operators()) {
    if (op.op == "ElementwiseChain" || op.op == "Identity") continue;
    const std::string_view reference = op.rows.back().name;
    for (DType t : kTypes) {
      int variant = 0;
      for (const auto& shapes : ShapesFor(op)) {
        // Large shapes reach the threads; the oracle makes them slow, so not with every type.
        const bool large = shapes[0].num_elements() >= 20000;
        if (large && t != DType::kF32 && t != DType::kBF16 && t != DType::kI64) continue;
        std::vector<Tensor> in;
        std::vector<View> views;
        const auto types = TypesOf(op, t, shapes.size());
        for (size_t i = 0; i < shapes.size(); ++i) in.push_back(RandomTensor(types[i], shapes[i], random));
        for (const Tensor& x : in) views.push_back(x.view());
        const Attrs attrs = AttrsFor(op.op, ++variant, kTypes[random() % std::size(kTypes)]);
        auto want = Evaluate(op.op, attrs, views, 1, hw::kBaseline, one, reference);
        if (!want.ok()) {
          ASSERT_EQ(want.status().code(), Code::kBadInput) << op.op << " " << DTypeName(t) << ": " << want.status().message();
          break;  // the type is not for this operator
        }
        for (const Row& row : op.rows) {
          if (row.name == reference || !hw::Covers(isa, row.needs)) continue;
          // A row that needs nothing may still use what there is.
          const hw::IsaMask given = row.needs == hw::kBaseline ? isa : row.needs;
          auto got = Evaluate(op.op, attrs, views, 1, given, large ? two : one, row.name);
          if (!got.ok()) {
            ASSERT_EQ(got.status().code(), Code::kUnsupported) << got.status().message();
            continue;
          }
          seen.insert(row.name);
          ASSERT_TRUE(Same(got.value()[0], want.value()[0]))
              << op.op << " row " << row.name << " type " << DTypeName(t) << " shape " << shapes[0].ToString() << " variant "
              << variant << " seed " << seed;
        }
      }
    }
  }
  EXPECT_GE(seen.size(), hw::Covers(isa, hw::kAvx512) ? 11u : hw::Covers(isa, hw::kAvx2) ? 7u : 3u);
}

// The output may be the memory of an input that InPlaceInputs names.
TEST_P(ElementwiseRows, WorkInPlace) {
  const auto isa = hw::IsaFromLevel(GetParam());
  ASSERT_TRUE(isa.ok());
  if (!hw::Covers(hw::DetectIsa(), isa.value())) GTEST_SKIP() << "this CPU lacks " << GetParam();
  Random random(7);
  hw::Team team(1);
  for (const OpKernels& op : Operators()) {
    if (op.op == "ElementwiseChain" || op.op == "CastLike") continue;
    for (DType t : {DType::kF32, DType::kF16, DType::kI64, DType::kBool}) {
      const size_t inputs = static_cast<size_t>(std::min(op.max_in, 3));
      std::vector<Tensor> in;
      std::vector<View> views;
      std::vector<ValueInfo> infos(inputs);
      for (size_t i = 0; i < inputs; ++i) {
        const bool scalar = op.op == "Clip" && i > 0;
        in.push_back(RandomTensor(TypesOf(op, t, inputs)[i], scalar ? Shape{} : Shape{3, 700}, random));
      }
      for (size_t i = 0; i < inputs; ++i) {
        views.push_back(in[i].view());
        infos[i].present = true;
        infos[i].dtype = in[i].dtype();
        infos[i].shape = SymShape(in[i].shape());
      }
      const Attrs attrs = AttrsFor(op.op, 0, t);
      std::vector<ValueInfo> out(1);
      out[0].present = true;
      if (!InferShapes(op.op, {attrs, infos, out}).ok()) continue;
      for (const Row& row : op.rows) {
        const Problem problem{op.op, attrs, infos, out, isa.value(), 1};
        if (!hw::Covers(isa.value(), row.needs) || (row.can != nullptr && row.can(problem) != nullptr)) continue;
        auto kernel = row.make(problem);
        ASSERT_TRUE(kernel.ok());
        const auto want = Evaluate(op.op, attrs, views, 1, isa.value(), team, row.name);
        ASSERT_TRUE(want.ok());
        for (size_t i = 0; i < inputs; ++i) {
          if ((kernel.value()->InPlaceInputs() >> i & 1) == 0 || in[i].bytes() != want.value()[0].bytes()) continue;
          Tensor shared = Tensor::CopyOf(views[i]).value();
          std::vector<View> run_in = views;
          run_in[i] = shared.view();
          std::vector<MutView> run_out = {shared.mutable_view()};
          run_out[0].dtype = out[0].dtype;
          ASSERT_TRUE(kernel.value()->Run({run_in, run_out, nullptr, nullptr, team, nullptr}).ok());
          EXPECT_EQ(std::memcmp(shared.data(), want.value()[0].data(), shared.bytes()), 0)
              << op.op << " row " << row.name << " type " << DTypeName(t) << " input " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, ElementwiseRows, testing::Values("baseline", "avx2", "avx512"));

}  // namespace
}  // namespace tenon::kernels::elementwise
