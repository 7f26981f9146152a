// ElementwiseChain against the operators it stands for, one by one.
#include "kernels/elementwise/chain.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "kernels/kernel.h"

namespace tenon::kernels {
namespace {

using Random = std::mt19937;

Tensor RandomF32(const Shape& shape, Random& random) {
  Tensor t = Tensor::Allocate(DType::kF32, shape).value();
  std::uniform_real_distribution<float> values(-3, 3);
  for (int64_t i = 0; i < shape.num_elements(); ++i) t.MutableData<float>()[i] = values(random);
  return t;
}

struct Program {
  std::vector<std::string> ops;
  std::vector<int64_t> args;
  std::vector<float> params;

  void Add(const std::string& op, int64_t a, int64_t b = -1, float p0 = 0, float p1 = 0) {
    ops.push_back(op);
    args.insert(args.end(), {a, b});
    params.insert(params.end(), {p0, p1});
  }
  Attrs ToAttrs() const {
    Attrs a;
    a.Set("ops", ops);
    a.Set("args", args);
    a.Set("params", params);
    return a;
  }
};

// One step through the separate operator.
Result<Tensor> RunStep(const std::string& step, const Tensor& a, const Tensor* b, float p0, float p1, hw::IsaMask isa,
                       hw::Team& team) {
  const auto run = [&](std::string_view op, const Tensor& x, const Tensor* y, const Attrs& attrs = {},
                       const Tensor* z = nullptr) -> Result<Tensor> {
    std::vector<View> in = {x.view()};
    if (y != nullptr) in.push_back(y->view());
    if (z != nullptr) in.push_back(z->view());
    TENON_ASSIGN_OR_RETURN(auto out, Evaluate(op, attrs, in, 1, isa, team));
    return out[0];
  };
  const Tensor c0 = Tensor::Scalar(p0);
  const Tensor c1 = Tensor::Scalar(p1);
  Attrs attrs;
  if (step == "AddConst") return run("Add", a, &c0);
  if (step == "MulConst") return run("Mul", a, &c0);
  if (step == "DivConst") return run("Div", a, &c0);
  if (step == "PowConst") return run("Pow", a, &c0);
  if (step == "MaxConst") return run("Max", a, &c0);
  if (step == "MinConst") return run("Min", a, &c0);
  if (step == "SubFromConst") return run("Sub", c0, &a);
  if (step == "DivFromConst") return run("Div", c0, &a);
  if (step == "MulAddConst") {
    TENON_ASSIGN_OR_RETURN(const Tensor product, run("Mul", a, &c0));
    return run("Add", product, &c1);
  }
  if (step == "Clip") return run("Clip", a, &c0, {}, &c1);
  if (step == "GeluTanh") {
    attrs.Set("approximate", std::string("tanh"));
    return run("Gelu", a, nullptr, attrs);
  }
  if (step == "HardSigmoid") {
    attrs.Set("alpha", p0);
    attrs.Set("beta", p1);
  } else if (step == "Selu") {
    attrs.Set("alpha", p0);
    attrs.Set("gamma", p1);
  } else if (step == "Shrink") {
    attrs.Set("lambd", p0);
    attrs.Set("bias", p1);
  } else if (p0 != 0) {
    attrs.Set("alpha", p0);
  }
  return run(step, a, b, attrs);
}

const char* const kOneOperand[] = {"Abs",       "Ceil",        "Erf",
                                   "Exp",       "Floor",       "Neg",
                                   "Relu",      "Round",       "HardSwish",
                                   "Sigmoid",   "Sign",        "Silu",
                                   "Sin",       "Softplus",    "Softsign",
                                   "Tan",       "Tanh",        "Gelu",
                                   "GeluTanh",  "Mish",        "Atan",
                                   "AddConst",  "MulConst",    "SubFromConst",
                                   "MaxConst",  "MinConst",    "MulAddConst",
                                   "DivConst",  "PowConst",    "Clip",
                                   "LeakyRelu", "Elu",         "Celu",
                                   "Selu",      "HardSigmoid", "Swish",
                                   "QuickGelu", "Shrink",      "ThresholdedRelu",
                                   "Sqrt",      "Log",         "Reciprocal",
                                   "Cos",       "DivFromConst"};
const char* const kTwoOperands[] = {"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Pow", "Mod"};

Program RandomProgram(int inputs, int steps, bool prelu, Random& random) {
  Program p;
  std::vector<int64_t> unread;
  for (int i = 0; i < inputs; ++i) unread.push_back(i);
  const auto take = [&](int64_t limit) {
    if (!unread.empty() && random() % 4 != 0) {
      const int64_t r = unread.back();
      unread.pop_back();
      return r;
    }
    const int64_t r = static_cast<int64_t>(random()) % limit;
    std::erase(unread, r);
    return r;
  };
  // Binary steps until every register but the last is read.
  for (int j = 0; j < steps || unread.size() > 1; ++j) {
    const int64_t limit = inputs + j;
    if (j < steps && random() % 2 == 0) {
      const std::string op = kOneOperand[random() % std::size(kOneOperand)];
      const float p0 = op == "Clip" ? -1.0f : op == "PowConst" ? 2.0f : 0.75f;
      const bool has_params = op.find("Const") != std::string::npos || op == "Clip" || op == "LeakyRelu" || op == "Elu" ||
                              op == "Celu" || op == "Selu" || op == "HardSigmoid" || op == "Swish" || op == "QuickGelu" ||
                              op == "Shrink" || op == "ThresholdedRelu";
      p.Add(op, take(limit), -1, has_params ? p0 : 0.0f, has_params ? 1.25f : 0.0f);
    } else {
      std::string op = kTwoOperands[random() % std::size(kTwoOperands)];
      if (op == "PRelu" && !prelu) op = "Add";
      const int64_t a = take(limit);
      p.Add(op, a, take(limit));
    }
    unread.push_back(limit);
  }
  return p;
}

class ElementwiseChain : public testing::TestWithParam<std::string> {};

// The chain runs the operators' own array functions, so the bits agree (NaNs aside, whose payload may differ).
TEST_P(ElementwiseChain, EqualsItsOperators) {
  const auto isa = hw::IsaFromLevel(GetParam());
  ASSERT_TRUE(isa.ok());
  if (!hw::Covers(hw::DetectIsa(), isa.value())) GTEST_SKIP() << "this CPU lacks " << GetParam();
  hw::Team one(1);
  hw::Team two(2);
  const std::vector<std::vector<Shape>> cases = {
      {Shape{1000}},
      {Shape{}, Shape{}},
      {Shape{2, 300}, Shape{300}, Shape{2, 1}},
      {Shape{2, 5, 7, 7}, Shape{5, 1, 1}, Shape{}, Shape{2, 5, 7, 7}},
      {Shape{400, 3}, Shape{3}, Shape{400, 1}},
      {Shape{3, 1}, Shape{1, 700}},
      {Shape{4, 1, 6}, Shape{90, 1}, Shape{4, 90, 6}},
      {Shape{0, 3}, Shape{3}},
      {Shape{30000}, Shape{30000}},
  };
  int compared = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    for (const auto& shapes : cases) {
      Random random(seed);
      std::vector<Tensor> registers;
      std::vector<View> views;
      Shape all;
      for (const Shape& s : shapes) registers.push_back(RandomF32(s, random));
      for (const Tensor& t : registers) views.push_back(t.view());
      // PRelu's slope may not grow the result, so it only appears where shapes are equal.
      const Program program = RandomProgram(static_cast<int>(shapes.size()), 6, shapes.size() == 1, random);
      const auto got = Evaluate("ElementwiseChain", program.ToAttrs(), views, 1, isa.value(), seed % 4 == 0 ? two : one);
      ASSERT_TRUE(got.ok()) << got.status().message();
      for (size_t j = 0; j < program.ops.size(); ++j) {
        const int64_t b = program.args[2 * j + 1];
        auto r = RunStep(program.ops[j], registers[static_cast<size_t>(program.args[2 * j])],
                         b < 0 ? nullptr : &registers[static_cast<size_t>(b)], program.params[2 * j], program.params[2 * j + 1],
                         isa.value(), one);
        ASSERT_TRUE(r.ok()) << program.ops[j] << ": " << r.status().message();
        registers.push_back(r.value());
      }
      // A chain's output has the shape of all inputs; the last step alone may have less.
      const Tensor zeros = Tensor::Zeros(DType::kF32, got.value()[0].shape()).value();
      const auto spread =
          Evaluate("Where", {}, std::vector<View>{Tensor::Scalar(true).view(), registers.back().view(), zeros.view()}, 1,
                   isa.value(), one);
      ASSERT_TRUE(spread.ok());
      const float* g = got.value()[0].Data<float>();
      const float* w = spread.value()[0].Data<float>();
      for (int64_t i = 0; i < zeros.shape().num_elements(); ++i, ++compared) {
        ASSERT_TRUE(std::memcmp(g + i, w + i, sizeof(float)) == 0 || (g[i] != g[i] && w[i] != w[i]))
            << "seed " << seed << " element " << i << ": " << g[i] << " and " << w[i];
      }
    }
  }
  EXPECT_GT(compared, 100000);
}

// A product and a sum by channel run as one pass, to the same bits; where the sum reads the product twice they do not.
TEST_P(ElementwiseChain, ScaleAndShiftByChannel) {
  const auto isa = hw::IsaFromLevel(GetParam());
  ASSERT_TRUE(isa.ok());
  if (!hw::Covers(hw::DetectIsa(), isa.value())) GTEST_SKIP() << "this CPU lacks " << GetParam();
  hw::Team team(1);
  Random random(3);
  const Tensor x = RandomF32(Shape{2, 5, 700}, random);
  const Tensor scale = RandomF32(Shape{5, 1}, random);
  const Tensor shift = RandomF32(Shape{5, 1}, random);
  const std::vector<View> views = {x.view(), scale.view(), shift.view()};
  const auto two = [&](const char* op, const Tensor& a, const Tensor& b) {
    return Evaluate(op, {}, std::vector<View>{a.view(), b.view()}, 1, isa.value(), team).value()[0];
  };
  for (int form = 0; form < 4; ++form) {
    Program program;
    form % 2 == 0 ? program.Add("Mul", 0, 1) : program.Add("Mul", 1, 0);
    form / 2 == 0 ? program.Add("Add", 3, 2) : program.Add("Add", 2, 3);
    program.Add("Relu", 4);
    const auto got = Evaluate("ElementwiseChain", program.ToAttrs(), views, 1, isa.value(), team);
    ASSERT_TRUE(got.ok()) << got.status().message();
    const Tensor sum = two("Add", two("Mul", x, scale), shift);
    const Tensor want = Evaluate("Relu", {}, std::vector<View>{sum.view()}, 1, isa.value(), team).value()[0];
    EXPECT_TRUE(SameTensor(got.value()[0].view(), want.view())) << form;
  }
  Program twice;
  twice.Add("Mul", 0, 1);
  twice.Add("Add", 3, 3);
  twice.Add("Add", 4, 2);
  const auto got = Evaluate("ElementwiseChain", twice.ToAttrs(), views, 1, isa.value(), team);
  ASSERT_TRUE(got.ok()) << got.status().message();
  const Tensor product = two("Mul", x, scale);
  EXPECT_TRUE(SameTensor(got.value()[0].view(), two("Add", two("Add", product, product), shift).view()));
}

INSTANTIATE_TEST_SUITE_P(Isa, ElementwiseChain, testing::Values("baseline", "avx2", "avx512"));

TEST(ElementwiseChainProgram, RefusesWhatIsNoProgram) {
  hw::Team team(1);
  const Tensor x = Tensor::FromVector<float>(Shape{2}, {1, 2});
  const auto code = [&](const Program& p, int inputs = 1) {
    const std::vector<View> in(static_cast<size_t>(inputs), x.view());
    return Evaluate("ElementwiseChain", p.ToAttrs(), in, 1, hw::DetectIsa(), team).status().code();
  };
  Program good;
  good.Add("Exp", 0);
  EXPECT_EQ(code(good), Code::kOk);
  EXPECT_EQ(code(Program{}), Code::kBadInput);
  EXPECT_EQ(code(good, 2), Code::kBadInput);  // input 1 is never read
  Program bad;
  bad.Add("MatMul", 0, 0);
  EXPECT_EQ(code(bad), Code::kBadInput);
  bad = {};
  bad.Add("Exp", 1);  // its own result
  EXPECT_EQ(code(bad), Code::kBadInput);
  bad = {};
  bad.Add("Add", 0, -1);
  EXPECT_EQ(code(bad), Code::kBadInput);
  bad = {};
  bad.Add("Exp", std::numeric_limits<int64_t>::max());
  EXPECT_EQ(code(bad), Code::kBadInput);
  bad = good;
  bad.params.pop_back();
  EXPECT_EQ(code(bad), Code::kBadInput);
  bad = {};
  for (int i = 0; i < 40; ++i) bad.Add("Exp", i);
  EXPECT_EQ(code(bad), Code::kBadInput);
}

TEST(ElementwiseChainProgram, ArityOfSteps) {
  using elementwise::ChainArity;
  EXPECT_EQ(ChainArity("Add"), 2);
  EXPECT_EQ(ChainArity("Gelu"), 1);
  EXPECT_EQ(ChainArity("AddConst"), 1);
  EXPECT_EQ(ChainArity("Conv"), 0);
}

}  // namespace
}  // namespace tenon::kernels
