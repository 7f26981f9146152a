#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/testing.h"

namespace tenon::passes::testing {
namespace {

const std::vector<std::string> kConv = {"ConvAddActivationFusion"};
const std::vector<std::string> kMatMul = {"GemmToFusedMatMul", "MatMulTransposeFusion",  "MatMulScaleFusion",
                                          "MatMulAddFusion",   "MatMulActivationFusion", "DeadCodeElimination"};

Outcome Check(const std::string& text, const std::vector<std::string>& passes, int nodes) {
  Outcome o = Optimise(text, passes);
  EXPECT_EQ(CountOps(o.graph), nodes) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 5e-6) << ir::Print(o.graph);
  return o;
}

std::string ConvGraph(const std::string& body) {
  return "graph g(x: float32[n,2,h,w], z: float32[n,2,h,w]) -> (y) {\n k: float32[2,2,1,1] = const [1, -2, 3, 0.5]\n"
         "b: float32[2] = const [0.25, -1]\n lo: float32[] = const [0]\n hi: float32[] = const [6]\n s: float32[1] = const "
         "[1.5]\n" +
         body + "\n}";
}

TEST(ConvFusion, TakesActivationAndResidual) {
  Check(ConvGraph("a = Conv(x, k, b)\n y = Relu(a)"), kConv, 1);
  Check(ConvGraph("a = Conv(x, k, b)\n y = Clip(a, lo, hi)"), kConv, 1);
  Check(ConvGraph("a = Conv(x, k)\n c = Add(z, a)\n y = Relu(c)"), kConv, 1);
  Check(ConvGraph("a = Conv(x, k, b)\n c = HardSwish(a)\n d = Mul(c, s)\n y = Add(lo, d)"), kConv, 1);
  Check(ConvGraph("a = Conv(x, k, b)\n c = Conv(z, k)\n d = Add(a, c)\n y = Sigmoid(d)"), kConv, 2);
  Check(ConvGraph("a = ConvTranspose(x, k, b)\n y = Relu(a)"), kConv, 1);
}

TEST(ConvFusion, NamesMeanWhatTheyMeanInTheSource) {
  const Outcome o = Check(ConvGraph("a = Conv(x, k, b)\n c = Relu(a)\n y = Softsign(c)"), kConv, 2);
  EXPECT_EQ(o.graph.FindValue("a"), ir::kNone) << ir::Print(o.graph);
  ASSERT_NE(o.graph.FindValue("c"), ir::kNone) << ir::Print(o.graph);
  EXPECT_EQ(o.graph.node(o.graph.value(o.graph.FindValue("c")).producer).op, "FusedConv");
}

TEST(ConvFusion, KeepsWhatWouldBeWrong) {
  Check(ConvGraph("a = Conv(x, k, b)\n r = Relu(a)\n y = Add(r, z)"), kConv, 2);     // the addition comes after the activation
  Check(ConvGraph("a = Conv(x, k, b)\n r = Relu(a)\n y = Add(r, a)"), kConv, 3);     // G02: read twice
  Check(ConvGraph("a = Conv(x, k, b)\n y = Add(a, a)"), kConv, 2);
  const Outcome o = Optimise(
      "graph g(x: float32[1,1,2,2], z: float32[1,1,1,2]) -> (a, y, q) {\n k: float32[1,1,1,1] = const [2]\n"
      "a = Conv(x, k)\n y = Relu(a)\n c = Conv(x, k)\n q = Add(c, z)\n}");
  EXPECT_LT(o.difference, 1e-6);
}

std::string MatMulGraph(const std::string& body) {
  return "graph g(x: float32[n,3,4], z: float32[n,3,2], m: float32[n,4]) -> (y) {\n w: float32[4,2] = const [1, -2, 3, 0.5, 2, "
         "0, -1, 4]\n"
         "wt: float32[2,4] = const [1, 3, 2, -1, -2, 0.5, 0, 4]\n b: float32[2] = const [0.25, -1]\n s: float32[] = const [0.5]\n"
         "sv: float32[1,1,2] = const [2, -3]\n" +
         body + "\n}";
}

TEST(MatMulFusion, TakesEverythingIn) {
  Check(MatMulGraph("a = MatMul(x, w)\n y = Add(b, a)"), kMatMul, 1);
  Check(MatMulGraph("a = MatMul(x, w)\n c = Add(a, b)\n d = Add(c, z)\n y = Relu(d)"), kMatMul, 1);
  Check(MatMulGraph("a = MatMul(x, w)\n c = Mul(a, sv)\n d = Add(c, b)\n y = Gelu(d)"), kMatMul, 1);
  Check(MatMulGraph("a = MatMul(x, w)\n c = Add(a, b)\n d = Div(c, s)\n y = Tanh(d)"), kMatMul, 1);
  Check(MatMulGraph("y = Gemm(m, wt, b) {alpha=0.5, beta=2.0, transB=1}"), kMatMul, 1);
  Check(MatMulGraph("a = Gemm(m, w, s)\n y = Sigmoid(a)"), kMatMul, 1);
  Check(MatMulGraph("t = Transpose(z) {perm=[0, 2, 1]}\n a = MatMul(t, x)\n y = Mul(a, s)"), kMatMul, 1);
  EXPECT_EQ(CountOps(Optimise(MatMulGraph("y = Gemm(m, w, b)"), kMatMul).graph, "FusedMatMul"), 1);
}

// G02: the product has a second reader, so nothing is fused and it is computed once.
TEST(FieldCase, G02) {
  const Outcome o = Check(
      "graph g(x: float32[n,4]) -> (y, q) {\n w: float32[4,2] = const [1, -2, 3, 0.5, 2, 0, -1, 4]\n"
      "s: float32[] = const [0.5]\n a = MatMul(x, w)\n y = Mul(a, s)\n q = Neg(a)\n}",
      kMatMul, 3);
  EXPECT_EQ(CountOps(o.graph, "MatMul") + CountOps(o.graph, "FusedMatMul"), 1);
  EXPECT_EQ(o.refusals.count("the product is used elsewhere"), 1u);
}

constexpr const char* kBert = R"(graph g(x: float32[b,s,8], mask: float32[b,1,1,s]) -> (y) {
    wq: float32[8,8] = const [1,0,0,0,0,0,0,0, 0,1,0,0,0,0,0,0, 0,0,1,0,0,0,0,0, 0,0,0,1,0,0,0,0, 0,0,0,0,1,0,0,0, 0,0,0,0,0,1,0,0, 0,0,0,0,0,0,1,0, 0,0,0,0,0,0,0,1]
    shape: int64[4] = const [0, 0, 2, 4]
    back: int64[3] = const [0, 0, 8]
    root: float32[] = const [2]
    inf: float32[] = const [-inf]
    low: float32[] = const [-1e+09]
    zero: float32[] = const [0]
    q3 = Sigmoid(x)
    k3 = MatMul(x, wq)
    v3 = Tanh(x)
    q4 = Reshape(q3, shape)
    k4 = Reshape(k3, shape)
    v4 = Reshape(v3, shape)
    q = Transpose(q4) {perm=[0, 2, 1, 3]}
    v = Transpose(v4) {perm=[0, 2, 1, 3]}
)";

Outcome Attention(const std::string& body, int nodes) {
  Outcome o =
      Optimise(std::string(kBert) + body + "\n}", {"CommonSubexpressionElimination", "AttentionFusion", "DeadCodeElimination"});
  EXPECT_EQ(CountOps(o.graph, "FusedAttention"), 1) << ir::Print(o.graph);
  EXPECT_EQ(CountOps(o.graph), nodes) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 1e-5) << ir::Print(o.graph);
  return o;
}

TEST(AttentionFusion, Bert) {
  Attention(R"(kt = Transpose(k4) {perm=[0, 2, 3, 1]}
    a = MatMul(q, kt)
    c = Div(a, root)
    d = Add(c, mask)
    p = Softmax(d) {axis=-1}
    o = MatMul(p, v)
    t = Transpose(o) {perm=[0, 2, 1, 3]}
    y = Reshape(t, back))",
            4);
}

TEST(AttentionFusion, SdpaExport) {
  Attention(R"(k = Transpose(k4) {perm=[0, 2, 1, 3]}
    kt = Transpose(k) {perm=[0, 1, 3, 2]}
    qs = Mul(q, root)
    ks = Mul(kt, root)
    a = MatMul(qs, ks)
    d = Add(mask, a)
    p0 = Softmax(d) {axis=3}
    nan = IsNaN(p0)
    p = Where(nan, zero, p0)
    o = MatMul(p, v)
    t = Transpose(o) {perm=[0, 2, 1, 3]}
    y = Reshape(t, back))",
            4);
}

TEST(AttentionFusion, BoolMasksAndFourDimensionalResult) {
  const std::string k = "kt = Transpose(k4) {perm=[0, 2, 3, 1]}\n a = MatMul(q, kt)\n";
  Attention(k + "m = GreaterOrEqual(mask, zero)\n d = Where(m, a, low)\n p = Softmax(d)\n y = MatMul(p, v)", 6);
  Attention(k + "m = GreaterOrEqual(mask, low)\n d = Where(m, a, inf)\n p = Softmax(d)\n y = MatMul(p, v)", 5);
  Attention(k + "m = Less(mask, low)\n d = Where(m, inf, a)\n p = Softmax(d)\n y = MatMul(p, v)", 6);
}

TEST(AttentionFusion, PackedProjection) {
  const Outcome o = Optimise(R"(graph g(x: float32[b,s,24]) -> (y) {
    shape: int64[5] = const [0, 0, 3, 2, 4]
    back: int64[3] = const [0, 0, 8]
    i0: int64[] = const [0]
    i1: int64[] = const [1]
    i2: int64[] = const [2]
    s: float32[] = const [0.5]
    r = Reshape(x, shape)
    t = Transpose(r) {perm=[2, 0, 3, 1, 4]}
    q = Gather(t, i0) {axis=0}
    k = Gather(t, i1) {axis=0}
    v = Gather(t, i2) {axis=0}
    qs = Mul(q, s)
    kt = Transpose(k) {perm=[0, 1, 3, 2]}
    a = MatMul(qs, kt)
    p = Softmax(a)
    o = MatMul(p, v)
    u = Transpose(o) {perm=[0, 2, 1, 3]}
    y = Reshape(u, back)
  })",
                             {"AttentionFusion", "DeadCodeElimination"});
  EXPECT_EQ(CountOps(o.graph), 1) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 1e-5);
}

// nn.MultiheadAttention: the sequence first, one projection, heads merged into the batch on the way.
TEST(AttentionFusion, SequenceFirst) {
  const Outcome o = Optimise(R"(graph g(x: float32[b,5,4]) -> (y) {
    w: float32[4,12] = const [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, -7, 6, -5, 4, -3, 2, -1, 0, 1, 0, -1, 2, 1, 0, -1, -2, -3, -2, -1, 0, 1, 2, 3]
    wo: float32[4,4] = const [1, 2, 3, 4, 4, 3, 2, 1, -1, 1, -1, 1, 2, 2, 2, 2]
    bo: float32[4] = const [1, 2, 3, 4]
    split: int64[5] = const [1, 5, -1, 3, 4]
    zero: int64[1] = const [0]
    three: int64[1] = const [3]
    i0: int64[] = const [0]
    i1: int64[] = const [1]
    i2: int64[] = const [2]
    bmm: int64[3] = const [5, -1, 2]
    four: int64[4] = const [-1, 2, 5, 2]
    flat: int64[2] = const [-1, 4]
    back: int64[3] = const [5, -1, 4]
    s: float32[] = const [0.3]
    t = Transpose(x) {perm=[1, 0, 2]}
    m = MatMul(t, w)
    r = Reshape(m, split)
    tr = Transpose(r) {perm=[3, 1, 2, 0, 4]}
    sq = Squeeze(tr, three)
    q0 = Gather(sq, i0) {axis=0}
    k0 = Gather(sq, i1) {axis=0}
    v0 = Gather(sq, i2) {axis=0}
    q1 = Reshape(q0, bmm)
    k1 = Reshape(k0, bmm)
    v1 = Reshape(v0, bmm)
    q2 = Transpose(q1) {perm=[1, 0, 2]}
    k2 = Transpose(k1) {perm=[1, 2, 0]}
    v2 = Transpose(v1) {perm=[1, 0, 2]}
    q = Reshape(q2, four)
    kt0: int64[4] = const [-1, 2, 2, 5]
    k = Reshape(k2, kt0)
    v = Reshape(v2, four)
    qs = Mul(q, s)
    a = MatMul(qs, k)
    p = Softmax(a)
    o = MatMul(p, v)
    u = Transpose(o) {perm=[2, 0, 1, 3]}
    f = Reshape(u, flat)
    g = Gemm(f, wo, bo)
    h = Reshape(g, back)
    n = Transpose(h) {perm=[1, 0, 2]}
    y = Add(x, n)
  })");
  EXPECT_EQ(CountOps(o.graph, "FusedAttention"), 1) << ir::Print(o.graph);
  EXPECT_EQ(CountOps(o.graph), 3) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 1e-4);
}

TEST(AttentionFusion, HeadsInTheBatch) {
  const Outcome o = Optimise(R"(graph g(q: float32[n,s,4], k: float32[n,t,4], v: float32[n,t,6], mask: float32[n,1,t]) -> (y) {
    c: float32[] = const [0.5]
    kt = Transpose(k) {perm=[0, 2, 1]}
    a = MatMul(q, kt)
    b = Mul(a, c)
    d = Add(b, mask)
    p = Softmax(d)
    y = MatMul(p, v)
  })",
                             {"AttentionFusion", "DeadCodeElimination"});
  EXPECT_EQ(CountOps(o.graph, "FusedAttention"), 1) << ir::Print(o.graph);
  EXPECT_EQ(CountOps(o.graph), 2);
  EXPECT_LT(o.difference, 1e-5);
}

TEST(AttentionFusion, KeepsProbabilitiesThatAreRead) {
  const Outcome o = Optimise(R"(graph g(q: float32[n,s,4], k: float32[n,t,4], v: float32[n,t,6]) -> (y, p) {
    kt = Transpose(k) {perm=[0, 2, 1]}
    a = MatMul(q, kt)
    p = Softmax(a)
    y = MatMul(p, v)
  })");
  EXPECT_EQ(CountOps(o.graph, "FusedAttention"), 0);
  EXPECT_LT(o.difference, 1e-6);
}

// ids may be no class at all: then the row is the bias alone.
TEST(OneHotMatMulFusion, BecomesAGather) {
  for (const char* tail : {"m = MatMul(hot, w)\n y = Add(m, b)}", "y = FusedMatMul(hot, w, b) {activation=\"GeluTanh\"}}"}) {
    const Outcome o = Optimise(std::string(R"(graph g(x: int32[n,4]) -> (y) {
    classes: int32[1,1,3] = const [0, 1, 2]
    axes: int64[1] = const [2]
    w: float32[3,2] = const [1, 2, -3, 4, 5, 0.5]
    b: float32[2] = const [0.25, -0.5]
    shift: int32[] = const [1]
    less = Sub(x, shift)
    ids = Unsqueeze(less, axes)
    same = Equal(ids, classes)
    hot = Cast(same) {to=1}
    )") + tail);
    EXPECT_EQ(CountOps(o.graph, "Gather"), 1) << ir::Print(o.graph);
    EXPECT_EQ(CountOps(o.graph, "Equal") + CountOps(o.graph, "FusedMatMul") + CountOps(o.graph, "MatMul"), 0)
        << ir::Print(o.graph);
    EXPECT_LT(o.difference, 1e-6);
  }
}

TEST(OneHotMatMulFusion, KeepsWhatIsNotOneHot) {
  const Outcome o = Optimise(R"(graph g(x: int32[n,1]) -> (y) {
    classes: int32[1,3] = const [0, 2, 1]
    w: float32[3,2] = const [1, 2, -3, 4, 5, 0.5]
    same = Equal(x, classes)
    hot = Cast(same) {to=1}
    y = MatMul(hot, w)
  })",
                             {"OneHotMatMulFusion"});
  EXPECT_EQ(CountOps(o.graph), 3) << ir::Print(o.graph);
}

TEST(SqueezeMotion, ConvolutionTakesInWhatFollows) {
  const Outcome o = Optimise(R"(graph g(x: float32[n,2,6,1]) -> (y) {
    w: float32[3,2,3,1] = const [1, 2, -3, 4, 5, 0.5, 7, -8, 0.25, 1, 2, 3, -1, 0.5, 2, 0.25, 1, -2]
    b: float32[3,1] = const [0.5, -1, 2]
    axes: int64[1] = const [-1]
    c = Conv(x, w)
    s = Squeeze(c, axes)
    a = Add(b, s)
    r = Relu(a)
    p = GlobalMaxPool(r)
    y = Sqrt(p)
  })");
  EXPECT_EQ(CountOps(o.graph, "FusedConv"), 1) << ir::Print(o.graph);
  EXPECT_EQ(CountOps(o.graph, "Add") + CountOps(o.graph, "Relu"), 0) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 1e-5);
}

TEST(SqueezeMotion, OnlyBehindConvolutions) {
  const Outcome o = Optimise(R"(graph g(x: float32[n,2,6,1]) -> (y) {
    axes: int64[1] = const [3]
    s = Squeeze(x, axes)
    y = Relu(s)
  })",
                             {"SqueezeMotion"});
  EXPECT_EQ(o.changes, 0);
}

TEST(ElementwiseChain, FusesAGroup) {
  const Outcome o = Optimise(R"(graph g(x: float32[n,4], z: float32[n,4], u: float32[1,4]) -> (y, k) {
    one: float32[] = const [1]
    two: float32[1] = const [2]
    v: float32[4] = const [1, 2, 3, 4]
    a = Mul(x, v)
    b = Sub(one, a)
    c = Exp(b)
    d = Div(c, z)
    e = Sigmoid(u)
    f = Add(d, e)
    g = Pow(f, two)
    y = Clip(g, one)
    k = Neg(x)
  })",
                             {"ElementwiseChainFusion", "DeadCodeElimination"});
  EXPECT_EQ(CountOps(o.graph, "ElementwiseChain"), 1) << ir::Print(o.graph);
  EXPECT_EQ(CountOps(o.graph), 3);  // sigmoid of the small operand stays outside, so does the other output
  EXPECT_LT(o.difference, 1e-6);
}

TEST(ElementwiseChain, FusesBf16Too) {
  const Outcome o = Optimise(R"(graph g(x: bfloat16[n,4], z: bfloat16[n,4]) -> (y) {
    a = Tanh(x)
    b = Mul(a, z)
    y = Add(b, x)
  })",
                             {"ElementwiseChainFusion", "DeadCodeElimination"});
  EXPECT_EQ(CountOps(o.graph, "ElementwiseChain"), 1) << ir::Print(o.graph);
  EXPECT_EQ(CountOps(o.graph), 1) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 0.1);  // three roundings to 8 bits of values below 8 become one
}

TEST(ElementwiseChain, KeepsValuesThatAreReadElsewhere) {
  const Outcome o = Optimise(R"(graph g(x: float32[n,4]) -> (y, b) {
    a = Exp(x)
    b = Neg(a)
    c = Tanh(b)
    y = Abs(c)
  })",
                             {"ElementwiseChainFusion", "DeadCodeElimination"});
  EXPECT_EQ(CountOps(o.graph), 2) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 1e-6);
}

TEST(NhwcLayout, KeepsTwoTransposesAtMost) {
  const Outcome o = Optimise(R"(graph g(x: float32[n,2,h,w]) -> (y) {
    k: float32[4,2,3,3] = const [1, 2, -3, 4, 5, 6, 7, -8, 9, 1, 2, 3, 4, -5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, -7, 8, 9, 1, 2, 3, -4, 5, 6, 7, 8, 9, 1, 2, -3, 4, 5, 6, 7, -8, 9, 1, 2, 3, 4, -5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, -7, 8, 9, 1, 2, 3, -4, 5, 6, 7, 8, 9]
    d: float32[4,1,3,3] = const [1, 2, -3, 4, 5, 6, 7, -8, 9, 1, 2, 3, 4, -5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, -7, 8, 9, 1, 2, 3, -4, 5, 6, 7, 8, 9]
    e: float32[4,4,1,1] = const [1, 2, 3, 4, 4, 3, 2, 1, -1, 1, -1, 1, 2, 2, 2, 2]
    small: float32[] = const [0.001]
    c: float32[4,1,1] = const [1, -2, 3, 0.25]
    axes: int64[2] = const [2, 3]
    pads: int64[8] = const [0, 0, 1, 0, 0, 0, 0, 1]
    a0 = Conv(x, k) {pads=[1, 1, 1, 1]}
    a = Mul(a0, small)
    r = Relu(a)
    s = Conv(r, d) {group=4, pads=[1, 1, 1, 1]}
    t = Mul(s, c)
    p = MaxPool(t) {kernel_shape=[2, 2], strides=[1, 1]}
    q = Pad(p, pads)
    g = ReduceMean(q, axes)
    h1 = Conv(g, e)
    h2 = Sigmoid(h1)
    m = Mul(q, h2)
    i, j = Split(m) {axis=1, num_outputs=2}
    l = Concat(j, i, m) {axis=1}
    u = Softmax(l) {axis=1}
    y = Add(u, l)
  })");
  EXPECT_EQ(CountOps(o.graph, "Transpose"), 2) << ir::Print(o.graph);
  EXPECT_EQ(CountOps(o.graph, "Conv"), 0) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 2e-5);
}

}  // namespace
}  // namespace tenon::passes::testing
