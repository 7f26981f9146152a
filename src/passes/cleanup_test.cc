#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/testing.h"

namespace tenon::passes::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(Pipeline, RefusesUnknownNames) {
  ir::Graph g = Build("graph g(x: float32[2]) -> (x) {}");
  PassContext c = Context();
  c.disabled = {"ConstantFoldin"};
  const Status s = RunPipeline(g, c, nullptr);
  EXPECT_EQ(s.code(), Code::kUsage);
  EXPECT_THAT(s.message(), HasSubstr("ConstantFoldin'"));
  EXPECT_THAT(s.message(), HasSubstr("ConstantFolding, CommonSub"));
  c.disabled.clear();
  c.opt_level = 7;
  EXPECT_EQ(RunPipeline(g, c, nullptr).code(), Code::kUsage);
}

TEST(Pipeline, ObeysLevelAndDisabled) {
  const char* text = "graph g(x: float32[2]) -> (y) {\n a = Identity(x)\n y = Relu(a)\n}";
  PassContext c = Context();
  c.opt_level = 0;
  EXPECT_EQ(CountOps(Optimise(text, {}, c).graph, "Identity"), 1);
  c.opt_level = 1;
  EXPECT_EQ(CountOps(Optimise(text, {}, c).graph, "Identity"), 0);
  c.disabled = {"EliminateIdentity"};
  EXPECT_EQ(CountOps(Optimise(text, {}, c).graph, "Identity"), 1);
}

TEST(EliminateIdentity, RemovesWhatPassesItsInputOn) {
  const Outcome o = Optimise(R"(graph g(x: float32[n,3]) -> (y) {
    one: float32[1] = const [1]
    zero: float32[] = const [0]
    z2: int64[2] = const [0, 0]
    big: int64[2] = const [9223372036854775807, 9223372036854775807]
    same: int64[2] = const [0, -1]
    a = Identity(x)
    b = Mul(one, a)
    c = Add(b, zero)
    d = Sub(c, zero)
    e = Div(d, one)
    f = Reshape(e, same)
    g = Transpose(f) {perm=[0, 1]}
    h = Slice(g, z2, big)
    j = Concat(h) {axis=1}
    k = Cast(j) {to=1}
    y = Relu(k)
  })",
                             {"EliminateIdentity"});
  EXPECT_EQ(CountOps(o.graph), 1) << ir::Print(o.graph);
  EXPECT_EQ(o.difference, 0);
}

TEST(EliminateIdentity, SlicesBeyondAllMemory) {
  const Outcome o = Optimise(R"(graph g(x: float32[n,512,256]) -> (y, z) {
    zeros: int32[3] = const [0, 0, 0]
    ends: int32[3] = const [1000000000, 512, 1000000000]
    few: int32[3] = const [1000000, 512, 256]
    a = Slice(x, zeros, ends)
    y = Relu(a)
    z = Slice(x, zeros, few)
  })",
                             {"EliminateIdentity"});
  EXPECT_EQ(CountOps(o.graph, "Slice"), 1) << ir::Print(o.graph);
}

TEST(EliminateIdentity, KeepsWhatChangesTypeOrShape) {
  const Outcome o = Optimise(R"(graph g(x: float32[3], k: int64[3]) -> (a, b, c, d, e) {
    one: float32[2,1] = const [1, 1]
    unit: float32[1,1] = const [1]
    s: int64[1] = const [-3]
    end: int64[1] = const [9223372036854775807]
    step: int64[1] = const [-1]
    a = Mul(x, one)
    b = Mul(x, unit)
    c = Cast(k) {to=1}
    d0 = Slice(x, s, end)
    d = Relu(d0)
    e = Slice(x, s, end, _, step)
  })",
                             {"EliminateIdentity"});
  // Only the slice with a negative start is provably the whole of x (by its extents); the reversed one is not.
  EXPECT_EQ(CountOps(o.graph, "Mul"), 2);
  EXPECT_EQ(CountOps(o.graph, "Cast"), 1);
  EXPECT_GE(CountOps(o.graph, "Slice"), 1);
  EXPECT_EQ(o.difference, 0);
}

TEST(EliminateIdentity, OutputsKeepTheirNames) {
  const Outcome o = Optimise(R"(graph g(x: float32[n]) -> (y, z, x, w) {
    c: float32[1] = const [2]
    y = Identity(x)
    r = Relu(x)
    z = Identity(r)
    w = Identity(c)
  })",
                             {"EliminateIdentity", "DeadCodeElimination"});
  EXPECT_EQ(CountOps(o.graph), 3) << ir::Print(o.graph);
  EXPECT_EQ(o.difference, 0);
}

// G04: the fusion of a chain of nothings must not leave a dangling edge, in whatever order passes run.
TEST(FieldCase, G04) {
  const char* text = R"(graph g(x: float32[2,2]) -> (y) {
    one: float32[] = const [1]
    zero: float32[] = const [0]
    q = Div(one, one)
    mid = Identity(x)
    m = Mul(q, mid)
    c = Cast(m) {to=1}
    y = Add(c, zero)
  })";
  std::vector<std::string> order = PassNames();
  std::sort(order.begin(), order.end());
  for (int i = 0; i < 200; ++i) {
    std::next_permutation(order.begin(), order.end());
    std::rotate(order.begin(), order.begin() + i % static_cast<int>(order.size()), order.end());
    EXPECT_EQ(Optimise(text, order).difference, 0);
  }
  for (int level : {0, 1, 2, 3, 99}) {
    PassContext c = Context();
    c.opt_level = level;
    EXPECT_EQ(Optimise(text, {}, c).difference, 0);
  }
}

TEST(ConstantFolding, EvaluatesKnownNodes) {
  const Outcome o = Optimise(R"(graph g(x: float32[2,n]) -> (y, k) {
    a: float32[2] = const [1, 2]
    b: float32[2,1] = const [3, 4]
    s = Add(a, b)
    t = Transpose(s) {perm=[1, 0]}
    y = MatMul(t, x)
    k = Neg(a)
  })");
  EXPECT_EQ(CountOps(o.graph, "Add") + CountOps(o.graph, "Transpose") + CountOps(o.graph, "Neg"), 0);
  EXPECT_EQ(o.difference, 0);
}

// What fails on its data fails at run time, as it would unoptimised.
TEST(ConstantFolding, LeavesErrorsAlone) {
  PassReport report;
  ir::Graph g = Build(R"(graph g(x: float32[2]) -> (b) {
    i: int64[2] = const [1, 7]
    d: float32[3,2] = const [1, 2, 3, 4, 5, 6]
    j: int64[2,1] = const [0, 7]
    b = GatherND(d, j)
  })");
  ASSERT_TRUE(RunPass("ConstantFolding", g, Context(), &report).ok());
  EXPECT_EQ(CountOps(g, "GatherND"), 1);
  EXPECT_THAT(report.refusals, UnorderedElementsAre(std::pair("could not be evaluated", 1)));
}

// G06: an output without an inferred shape is not "too large": it is evaluated and measured then.
TEST(FieldCase, G06) {
  PassContext c = Context();
  c.fold_cap_bytes = 1;
  const Outcome o = Optimise(R"(graph g(x: float32[3]) -> (y) {
    a: int64[3] = const [1, 2, 3]
    b: int64[] = const [2]
    m = GreaterOrEqual(a, b)
    f = Cast(m) {to=1}
    y = Mul(x, f)
  })",
                             {}, c);
  EXPECT_EQ(CountOps(o.graph, "GreaterOrEqual") + CountOps(o.graph, "Cast"), 0) << ir::Print(o.graph);
}

// G07: folding must not bloat the model, but transposed weights are always folded.
TEST(FieldCase, G07) {
  PassReport report;
  ir::Graph g = Build(R"(graph g(x: float32[n,1000]) -> (y, z) {
    a: float32[1,1] = const [1]
    big: int64[2] = const [1000, 1000]
    e = Expand(a, big)
    y = MatMul(x, e)
    w = Tile(a, big)
    t = Transpose(w) {perm=[1, 0]}
    z = MatMul(x, t)
  })");
  ASSERT_TRUE(RunPass("ConstantFolding", g, Context(), &report).ok());
  EXPECT_EQ(CountOps(g, "Expand") + CountOps(g, "Tile"), 2);
  EXPECT_FALSE(report.refusals.empty());

  ir::Graph h;
  h.name = "h";
  const auto x = h.AddInput("x", DType::kF32, Shape({1, 300}));
  const auto w = h.AddConstant("w", Tensor::FromVector<float>({300, 300}, std::vector<float>(90000, 1)));
  ir::Node t;
  t.op = "Transpose";
  t.inputs = {w};
  t.outputs = {h.AddValue("t", DType::kF32, Shape({300, 300}))};
  h.AddNode(std::move(t));
  ir::Node m;
  m.op = "MatMul";
  m.inputs = {x, h.FindValue("t")};
  m.outputs = {h.AddValue("y", DType::kF32, Shape({1, 300}))};
  h.AddNode(std::move(m));
  h.AddOutput(h.FindValue("y"));
  PassContext c = Context();
  c.fold_cap_bytes = 1;
  ASSERT_TRUE(RunPass("ConstantFolding", h, c).ok());
  EXPECT_EQ(CountOps(h, "Transpose"), 0);
}

TEST(FoldDequantizedWeights, FoldsWeightsOfFourBits) {
  ir::Graph g;
  g.name = "g";
  const ir::ValueId w = g.AddConstant("w", *Tensor::Zeros(DType::kU4, {256, 256}));
  const ir::ValueId s = g.AddConstant("s", *Tensor::Zeros(DType::kF32, {256, 8}));
  ir::Node d;
  d.op = "DequantizeLinear";
  d.inputs = {w, s};
  d.attrs.Set("axis", int64_t{1});
  d.attrs.Set("block_size", int64_t{32});
  d.outputs = {g.AddValue("d", DType::kF32, Shape({256, 256}))};
  g.AddNode(std::move(d));
  ir::Node m;
  m.op = "MatMul";
  m.inputs = {g.AddInput("x", DType::kF32, Shape({1, 256})), g.FindValue("d")};
  m.outputs = {g.AddValue("y", DType::kF32, Shape({1, 256}))};
  g.AddNode(std::move(m));
  g.AddOutput(g.FindValue("y"));
  ASSERT_TRUE(RunPass("FoldDequantizedWeights", g, Context()).ok());
  EXPECT_EQ(CountOps(g, "DequantizeLinear"), 0);
}

// N20: int8 weights without a zero point keep their signs when they are folded, also behind a Reshape.
TEST(FieldCase, N20) {
  for (int level : {0, 1, 99}) {
    ir::Graph g = Build(R"(graph g(x: float32[2,2]) -> (y) {
      w: int8[4] = const [12, -45, 7, -3]
      s: float32[] = const [0.02]
      shape: int64[2] = const [2, 2]
      d = DequantizeLinear(w, s)
      r = Reshape(d, shape)
      y = Add(x, r)
    })");
    PassContext c = Context();
    c.opt_level = level;
    ASSERT_TRUE(RunPipeline(g, c, nullptr).ok());
    EXPECT_EQ(CountOps(g, "DequantizeLinear"), level == 0 ? 1 : 0);
    auto y = Interpret(g, {*Tensor::Zeros(DType::kF32, {2, 2})});
    ASSERT_TRUE(y.ok()) << y.status().message();
    const float expected[] = {0.24f, -0.9f, 0.14f, -0.06f};
    for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ((*y)[0].Data<float>()[i], expected[i]);
  }
}

TEST(ConstantFolding, UsesKnownElements) {
  const Outcome o = Optimise(R"(graph g(x: float32[n,3,4]) -> (y) {
    i: int64[] = const [2]
    zero: int64[1] = const [0]
    s = Shape(x)
    d = Gather(s, i)
    u = Unsqueeze(d, zero)
    m: int64[1] = const [-1]
    t = Concat(m, u) {axis=0}
    y = Reshape(x, t)
  })");
  EXPECT_EQ(CountOps(o.graph), 1) << ir::Print(o.graph);
  EXPECT_EQ(o.difference, 0);
}

const char* const kIfText = R"(graph g(x: float32[n]) -> (y, z) {
    one: int64[] = const [1]
    two: float32[1] = const [2]
    c = Equal(one, one)
    y, z = If(c, x, two) {captures=2} {{
      graph then(a: float32[n], k: float32[1]) -> (a, r) {
        r = Mul(a, k)
      }
      graph else(a: float32[n], k: float32[1]) -> (r, r) {
        r = Add(a, k)
      }
    }}
  })";

TEST(ConstantFolding, TakesTheKnownBranch) {
  const Outcome o = Optimise(kIfText);
  EXPECT_EQ(CountOps(o.graph, "If"), 0);
  EXPECT_EQ(CountOps(o.graph, "Mul"), 1);
  EXPECT_EQ(CountOps(o.graph, "Add"), 0);
  EXPECT_EQ(o.difference, 0);
}

// G08: scopes. Bodies are closed, so (b), (d) and (e) are captures; outputs of bodies survive every pass.
TEST(FieldCase, G08) {
  const char* text = R"(graph g(x: float32[n], c: bool[]) -> (y, z) {
    k: float32[1] = const [2]
    i = Identity(x)
    y, z = If(c, i, k) {captures=2} {{
      graph then(x: float32[n], k: float32[1]) -> (x, r) {
        e: float32[1] = const [1]
        r = Mul(k, e)
      }
      graph else(x: float32[n], k: float32[1]) -> (r, q) {
        t: bool[] = const [1]
        r = Identity(x)
        q = If(t, x) {captures=1} {{
          graph inner(x: float32[n]) -> (x) {}
          graph inner2(x: float32[n]) -> (x) {}
        }}
      }
    }}
  })";
  for (const auto& pass : PassNames()) EXPECT_EQ(Optimise(text, {pass, "EliminateIdentity", pass}).difference, 0) << pass;
  const Outcome o = Optimise(text);
  EXPECT_EQ(o.difference, 0);
  EXPECT_EQ(CountOps(o.graph, "If"), 1);
  EXPECT_EQ(CountOps(o.graph, "Mul"), 0) << ir::Print(o.graph);
}

// A model with a branch per sampling rate, compiled for one rate: the branch of the other cannot take the shape and is never
// taken.
TEST(Pipeline, LeavesABranchThatDoesNotFit) {
  const Outcome o = Optimise(R"(graph g(x: float32[5]) -> (y) {
    hundred: float32[] = const [100]
    two: float32[1] = const [2]
    m = ReduceMax(x) {keepdims=0}
    c = Greater(m, hundred)
    y = If(c, x, two) {captures=2} {{
      graph then(a: float32[5], k: float32[1]) -> (r) {
        w: float32[3] = const [1, 2, 3]
        i = Identity(a)
        r = Add(i, w)
      }
      graph else(a: float32[5], k: float32[1]) -> (r) {
        w: float32[1] = const [3]
        f = Mul(k, w)
        r = Add(a, f)
      }
    }}
  })");
  EXPECT_EQ(CountOps(o.graph, "Identity"), 1);
  EXPECT_EQ(CountOps(o.graph, "Mul"), 0) << ir::Print(o.graph);
  EXPECT_THAT(o.refusals, ::testing::Contains(::testing::Key("a branch does not fit the shapes")));
  EXPECT_EQ(o.difference, 0);
}

// The same, where only folding brings it to light.
TEST(Pipeline, LeavesABranchThatFoldingShowsNotToFit) {
  const Outcome o = Optimise(R"(graph g(x: float32[5]) -> (y) {
    hundred: float32[] = const [100]
    m = ReduceMax(x) {keepdims=0}
    c = Greater(m, hundred)
    y = If(c, x) {captures=1} {{
      graph then(a: float32[5]) -> (r) {
        f: float32[1] = const [3]
        s = Cast(f) {to=7}
        r = Reshape(a, s)
      }
      graph else(a: float32[5]) -> (r) {
        r = Neg(a)
      }
    }}
  })");
  EXPECT_EQ(CountOps(o.graph, "If"), 1);
  EXPECT_THAT(o.refusals, ::testing::Contains(::testing::Key("a branch does not fit the shapes")));
  EXPECT_EQ(o.difference, 0);
}

TEST(CommonSubexpression, MergesEqualNodes) {
  const Outcome o = Optimise(R"(graph g(x: float32[n]) -> (y, z) {
    c: float32[1] = const [2]
    d: float32[1] = const [2]
    a = Mul(x, c)
    b = Mul(x, d)
    y = Sigmoid(a)
    z = Sigmoid(b)
  })",
                             {"CommonSubexpressionElimination", "DeadCodeElimination"});
  EXPECT_EQ(CountOps(o.graph, "Mul"), 1);
  EXPECT_EQ(o.difference, 0);
}

// G15: identical nodes merge without changing the result, in half precision too.
TEST(FieldCase, G15) {
  ir::Graph g = Build(R"(graph g() -> (p, q) {
    a: float16[] = const [4.742]
    b: float16[] = const [6.883]
    x = Sigmoid(a)
    x2 = Sigmoid(a)
    c = Cast(x2) {to=7}
    p = Add(c, c)
    q = Add(x, b)
  })");
  auto before = Interpret(g, {});
  ASSERT_TRUE(before.ok()) << before.status().message();
  PassContext c = Context();
  for (int level : {1, 2, 3, 99}) {
    c.opt_level = level;
    ASSERT_TRUE(RunPipeline(g, c, nullptr).ok());
    auto after = Interpret(g, {});
    ASSERT_TRUE(after.ok());
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(SameTensor((*before)[i].view(), (*after)[i].view()));
  }
}

}  // namespace
}  // namespace tenon::passes::testing
