// QuantizedFusion, QuantizerMotion: quantised models run as integers, with the results of the graph as it is written.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/testing.h"

namespace tenon::passes::testing {
namespace {

const std::vector<std::string> kPasses = {"QuantizerMotion", "QuantizedFusion", "DeadCodeElimination"};

// `steps`: the largest difference allowed, in results of about 1 (Outcome::difference is relative).
Outcome Check(const std::string& text, int nodes, double tolerance = 1e-5, const std::vector<std::string>& passes = kPasses) {
  Outcome o = Optimise(text, passes);
  EXPECT_EQ(CountOps(o.graph), nodes) << ir::Print(o.graph);
  EXPECT_LE(o.difference, tolerance) << ir::Print(o.graph);
  return o;
}

std::string Graph(const std::string& body, const std::string& inputs = "x: float32[n,2,h,w], z: float32[n,2,h,w]") {
  return "graph g(" + inputs +
         ") -> (y) {\n"
         " k: int8[2,2,1,1] = const [10, -20, 30, 5]\n ks: float32[2] = const [0.5, 0.25]\n kz: int8[2] = const [0, 0]\n"
         " m: int8[4,2] = const [10, -20, 30, 5, 1, 2, 3, -4]\n b: int32[2] = const [64, -32]\n bs: float32[2] = const [0.0625, "
         "0.03125]\n"
         " s: float32[] = const [0.125]\n t: float32[] = const [0.5]\n u: float32[] = const [0.25]\n"
         " zx: uint8[] = const [16]\n zy: uint8[] = const [100]\n f: float32[2] = const [1.5, -2]\n" +
         body + "\n}";
}

const std::string kConv =
    "xq = QuantizeLinear(x, s, zx)\n xd = DequantizeLinear(xq, s, zx)\n kd = DequantizeLinear(k, ks, kz) {axis=0}\n"
    "bd = DequantizeLinear(b, bs) {axis=0}\n a = Conv(xd, kd, bd)\n ";

TEST(QuantizedFusion, ConvTakesAllAroundIt) {
  Check(Graph(kConv + "y = Relu(a)"), 2);
  const Outcome o = Check(Graph(kConv + "r = Relu(a)\n y = QuantizeLinear(r, t, zy)"), 2);
  EXPECT_EQ(CountOps(o.graph, "QuantizedConv"), 1);
  Check(Graph(kConv + "y = HardSwish(a)"), 2);
  // The integer of the quantiser between convolution and addition is kept: through a grid.
  const std::string residual =
      "aq = QuantizeLinear(a, t, zy)\n ad = DequantizeLinear(aq, t, zy)\n zq = QuantizeLinear(z, u, zx)\n"
      "zd = DequantizeLinear(zq, u, zx)\n c = Add(zd, ad)\n r = Relu(c)\n y = QuantizeLinear(r, u, zy)";
  Check(Graph(kConv + residual), 3);
  Check(Graph(kConv + "c = Add(a, z)\n y = QuantizeLinear(c, t, zy)"), 2);
}

TEST(QuantizedFusion, ProductsOfMatrices) {
  const std::string inputs = "x: float32[n,4], z: float32[n,2]";
  const std::string product =
      "xq = QuantizeLinear(x, s, zx)\n xd = DequantizeLinear(xq, s, zx)\n md = DequantizeLinear(m, ks) {axis=1}\n ";
  Check(Graph(product + "y = MatMul(xd, md)", inputs), 2);
  Check(
      Graph(product + "a = MatMul(xd, md)\n c = Add(f, a)\n d = Add(c, z)\n r = Gelu(d)\n y = QuantizeLinear(r, s, zy)", inputs),
      2, 1);
  // A bias after the quantiser is added on its grid.
  Check(Graph(product + "a = MatMul(xd, md)\n q = QuantizeLinear(a, t, zy)\n d = DequantizeLinear(q, t, zy)\n e = Add(f, d)\n"
                        "y = QuantizeLinear(e, u, zy)",
              inputs),
        2);
  Check(Graph(product + "bd = DequantizeLinear(b, bs) {axis=0}\n y = Gemm(xd, md, bd)", inputs), 2);
}

TEST(QuantizedFusion, LinearOperators) {
  const std::string conv =
      "xq = QuantizeLinear(x, s, zx)\n c = QLinearConv(xq, s, zx, k, ks, kz, t, zy, b)\n y = DequantizeLinear(c, t, zy)";
  const Outcome o = Check(Graph(conv), 3);
  EXPECT_EQ(CountOps(o.graph, "QuantizedConv"), 1);
  EXPECT_EQ(o.difference, 0);
}

TEST(QuantizedFusion, KeepsWhatWouldBeWrong) {
  Check(Graph(kConv + "y = Mul(a, z)"), 3);
  Check(Graph(kConv + "y = Sub(a, z)"), 3);
  // The convolution's float result is read twice, a scale is computed, a value is rounded on another grid than it is read from.
  Check(Graph(kConv + "q = QuantizeLinear(a, t, zy)\n d = DequantizeLinear(q, t, zy)\n y = Add(a, d)"), 5);
  Check(
      "graph g(x: float32[n,2,h,w], z: float32[]) -> (y) {\n k: int8[2,2,1,1] = const [10, -20, 30, 5]\n ks: float32[] = const "
      "[0.5]\n"
      "zx: uint8[] = const [16]\n q = QuantizeLinear(x, z, zx)\n d = DequantizeLinear(q, z, zx)\n kd = DequantizeLinear(k, ks)\n"
      "y = Conv(d, kd)\n}",
      4, 0);
}

TEST(QuantizerMotion, MovesBytes) {
  const std::string dq = "xq = QuantizeLinear(x, s, zx)\n xd = DequantizeLinear(xq, s, zx)\n ";
  Check(Graph(dq + "p = MaxPool(xd) {kernel_shape=[1,1]}\n y = QuantizeLinear(p, s, zx)"), 2, 0);
  Check(Graph(dq + "p = Transpose(xd) {perm=[0,2,3,1]}\n y = QuantizeLinear(p, s, zx)"), 2, 0);
  Check(Graph(dq + "p = Transpose(xd) {perm=[0,2,3,1]}\n y = QuantizeLinear(p, t, zx)"), 4, 0);
  const std::string two = "zq = QuantizeLinear(z, t, zy)\n zd = DequantizeLinear(zq, t, zy)\n ";
  Check(Graph(dq + two + "p = Concat(xd, zd) {axis=1}\n y = QuantizeLinear(p, s, zx)"), 5, 0);
}

TEST(QuantizedFusion, DynamicQuantiser) {
  const std::string inputs = "x: float32[n,4]";
  const std::string body =
      "xq, xs, xz = DynamicQuantizeLinear(x)\n p = MatMulInteger(xq, m, xz)\n c = Cast(p) {to=1}\n t2 = Mul(xs, ks)\n"
      "d = Mul(c, t2)\n e = Add(d, f)\n y = Relu(e)";
  const Outcome o = Check(Graph(body, inputs), 2);
  EXPECT_EQ(CountOps(o.graph, "QuantizedMatMul"), 1);
}

TEST(QuantizedTables, FunctionsOfOneByte) {
  const std::vector<std::string> passes = {"QuantizedTables", "DeadCodeElimination"};
  const std::string dq = "xq = QuantizeLinear(x, s, zx)\n xd = DequantizeLinear(xq, s, zx)\n ";
  const Outcome o = Check(Graph(dq + "a = HardSwish(xd)\n y = QuantizeLinear(a, t, zy)"), 2, 0, passes);
  EXPECT_EQ(CountOps(o.graph, "ByteTable"), 1);
  // x * sigmoid(x), quantised on the way: both factors are functions of the same byte.
  const std::string silu =
      "a = Sigmoid(xd)\n aq = QuantizeLinear(a, u, zx)\n ad = DequantizeLinear(aq, u, zx)\n b2 = Mul(xd, ad)\n"
      "y = QuantizeLinear(b2, t, zy)";
  Check(Graph(dq + silu), 2, 0, passes);
  // Two values, or one at two shapes, are no table.
  Check(Graph(dq + "a = Mul(xd, z)\n y = QuantizeLinear(a, t, zy)"), 4, 0, passes);
}

TEST(QuantizedTables, SumsAndProductsOfTwo) {
  const std::vector<std::string> passes = {"QuantizedTables", "DeadCodeElimination"};
  const std::string two =
      "xq = QuantizeLinear(x, s, zx)\n xd = DequantizeLinear(xq, s, zx)\n zq = QuantizeLinear(z, t, zy)\n"
      "zd = DequantizeLinear(zq, t, zy)\n ";
  Check(Graph(two + "a = Add(xd, zd)\n y = QuantizeLinear(a, u, zy)"), 3, 0, passes);
  Check(Graph(two + "a = Mul(xd, zd)\n y = QuantizeLinear(a, u, zy)"), 3, 0, passes);
  Check(Graph(two + "a = Add(xd, zd)\n r = Relu(a)\n y = QuantizeLinear(r, u, zy)"), 4, 0, passes);
  Check(Graph(two + "a = Sub(xd, zd)\n y = QuantizeLinear(a, u, zy)"), 6, 0, passes);
}

TEST(QuantizedFusion, WholePipelineKeepsValues) {
  const std::string residual =
      "aq = QuantizeLinear(a, t, zy)\n ad = DequantizeLinear(aq, t, zy)\n zq = QuantizeLinear(z, u, zx)\n"
      "zd = DequantizeLinear(zq, u, zx)\n c = Add(zd, ad)\n r = Relu(c)\n q = QuantizeLinear(r, u, zy)\n"
      "d = DequantizeLinear(q, u, zy)\n y = GlobalAveragePool(d)";
  Outcome o = Optimise(Graph(kConv + residual));
  EXPECT_EQ(CountOps(o.graph, "QuantizedConv"), 1) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 1e-5) << ir::Print(o.graph);
}

}  // namespace
}  // namespace tenon::passes::testing
