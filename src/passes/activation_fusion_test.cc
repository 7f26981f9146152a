#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/testing.h"

namespace tenon::passes::testing {
namespace {

void ExpectFused(const std::string& body, const char* op, int nodes = 1) {
  const Outcome o = Optimise("graph g(x: float32[n,8]) -> (y) {\n" + body + "\n}", {"ActivationFusion", "LayerNormFusion"});
  EXPECT_EQ(CountOps(o.graph, op), nodes > 0 ? 1 : 0) << ir::Print(o.graph);
  if (nodes > 0) {
    EXPECT_EQ(CountOps(o.graph), nodes) << ir::Print(o.graph);
  }
  EXPECT_LT(o.difference, 2e-6) << body;
}

constexpr const char* kScalars = R"(
    half: float32[] = const [0.5]
    one: float32[] = const [1]
    two: float32[] = const [2]
    three: float32[] = const [3]
    six: float32[] = const [6]
    zero: float32[] = const [0]
    root2: float32[] = const [1.4142135]
    inv: float32[1] = const [0.70710677]
    k: float32[] = const [0.044715]
    s2pi: float32[] = const [0.7978846]
    q: float32[] = const [1.702]
)";

TEST(ActivationFusion, GeluInEverySpelling) {
  const std::string s = kScalars;
  ExpectFused(s + "a = Div(x, root2)\n b = Erf(a)\n c = Add(b, one)\n d = Mul(x, c)\n y = Mul(d, half)", "Gelu");
  ExpectFused(s + "a = Mul(x, inv)\n b = Erf(a)\n c = Add(one, b)\n h = Mul(half, x)\n y = Mul(h, c)", "Gelu");
  ExpectFused(s + "a = Mul(inv, x)\n b = Erf(a)\n c = Add(b, one)\n d = Mul(c, half)\n y = Mul(d, x)", "Gelu");
  ExpectFused(s + "p = Pow(x, three)\n a = Mul(k, p)\n b = Add(x, a)\n c = Mul(s2pi, b)\n d = Tanh(c)\n e = Add(one, d)\n"
                  "f = Mul(half, x)\n y = Mul(f, e)",
              "Gelu");
  ExpectFused(
      s + "p = Mul(x, x)\n q3 = Mul(p, x)\n a = Mul(q3, k)\n b = Add(a, x)\n c = Mul(b, s2pi)\n d = Tanh(c)\n e = Add(d, one)\n"
          "f = Mul(x, e)\n y = Mul(f, half)",
      "Gelu");
}

TEST(ActivationFusion, OtherActivations) {
  const std::string s = kScalars;
  ExpectFused(s + "a = Add(x, three)\n b = Clip(a, zero, six)\n c = Mul(x, b)\n y = Div(c, six)", "HardSwish");
  ExpectFused(s + "a = HardSigmoid(x) {alpha=0.16666667, beta=0.5}\n y = Mul(x, a)", "HardSwish");
  ExpectFused(s + "a = Add(x, three)\n r = Relu(a)\n b = Min(r, six)\n y = Div(b, six)", "HardSigmoid");
  ExpectFused(s + "a = Sigmoid(x)\n y = Mul(a, x)", "Silu");
  ExpectFused(s + "m = Mul(x, q)\n a = Sigmoid(m)\n y = Mul(a, x)", "Swish");
  ExpectFused(s + "a = Softplus(x)\n t = Tanh(a)\n y = Mul(x, t)", "Mish");
  ExpectFused(s + "m = Neg(x)\n e = Exp(m)\n a = Add(e, one)\n y = Reciprocal(a)", "Sigmoid");
}

// Equal to an activation near zero only: bounds of any size count.
TEST(ActivationFusion, IsNotFooledByFarBounds) {
  for (const char* bound : {"26", "50", "1000", "1e9", "1e30"}) {
    const std::string s = kScalars + std::string(" far: float32[] = const [") + bound + "]\n";
    ExpectFused(s + "a = Min(x, far)\n y = Max(a, zero)", "Relu", 0);
    ExpectFused(s + "a = Sigmoid(x)\n b = Min(x, far)\n y = Mul(a, b)", "Silu", 0);
  }
}

TEST(ActivationFusion, StopsAtTheRightOperand) {
  const std::string s = kScalars;
  // The argument is an elementwise value itself, also through a scalar.
  ExpectFused(s + "z = Mul(x, two)\n a = Sigmoid(z)\n y = Mul(a, z)", "Silu", 2);
  // Looks alike and is not: another constant, another operand, a result that is read elsewhere.
  ExpectFused(s + "a = Div(x, two)\n b = Erf(a)\n c = Add(b, one)\n d = Mul(x, c)\n y = Mul(d, half)", "Gelu", 0);
  ExpectFused(s + "z = Abs(x)\n a = Sigmoid(x)\n y = Mul(a, z)", "Silu", 0);
  const Outcome o = Optimise("graph g(x: float32[n,8]) -> (y, a) {\n a = Sigmoid(x)\n y = Mul(a, x)\n}");
  EXPECT_EQ(CountOps(o.graph, "Sigmoid"), 1);
  EXPECT_EQ(o.difference, 0);
}

// G01: t2 or t3 is a graph output as well as an operand of the group.
TEST(FieldCase, G01) {
  for (const char* second : {"t2", "t3"}) {
    const Outcome o = Optimise(std::string("graph g(t1: float32[n,8]) -> (t4, ") + second + ") {\n" +
                               "k: float32[] = const [3]\n t2 = Mul(t1, k)\n t3 = Sigmoid(t2)\n t4 = Mul(t2, t3)\n}");
    EXPECT_LT(o.difference, 1e-6);
  }
}

TEST(LayerNormFusion, InEverySpelling) {
  const std::string head = R"(
    axes: int64[1] = const [-1]
    two: float32[] = const [2]
    one: float32[] = const [1]
    eps: float32[] = const [1e-05]
    gamma: float32[8] = const [1, 2, 3, 4, 5, 6, 7, 8]
    beta: float32[8] = const [8, 7, 6, 5, 4, 3, 2, 1]
    m = ReduceMean(x, axes)
    d = Sub(x, m)
)";
  ExpectFused(
      head +
          "s = Pow(d, two)\n v = ReduceMean(s, axes)\n e = Add(v, eps)\n r = Sqrt(e)\n n = Div(d, r)\n g = Mul(n, gamma)\n"
          "y = Add(g, beta)",
      "LayerNormalization");
  ExpectFused(head +
                  "s = Mul(d, d)\n v = ReduceMean(s, axes)\n e = Add(eps, v)\n r = Sqrt(e)\n i = Reciprocal(r)\n n = Mul(d, i)\n"
                  "y = Mul(gamma, n)",
              "LayerNormalization");
  ExpectFused(R"(
    axes: int64[1] = const [1]
    two: float32[] = const [2]
    one: float32[] = const [1]
    eps: float32[] = const [1e-05]
    gamma: float32[8] = const [1, 2, 3, 4, 5, 6, 7, 8]
    s = Pow(x, two)
    v = ReduceMean(s, axes)
    e = Add(v, eps)
    r = Sqrt(e)
    i = Div(one, r)
    n = Mul(x, i)
    y = Mul(gamma, n))",
              "RMSNormalization");
}

}  // namespace
}  // namespace tenon::passes::testing
