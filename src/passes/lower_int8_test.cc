#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/testing.h"

namespace tenon::passes::testing {
namespace {

// 1x1 convolutions over four channels of values in about [-2, 2).
constexpr const char* kHead = R"(graph g(x: float32[1,4,5,6]) -> (y) {
    w: float32[4,4,1,1] = const [0.5, -0.25, 0.1, 0.3, -0.4, 0.2, 0.25, 0.1, 0.3, 0.1, -0.2, 0.4, 0.05, 0.5, -0.3, 0.2]
    b: float32[4] = const [0.1, -0.1, 0.2, 0]
    k: float32[] = const [0.5]
)";

PassContext Integers(std::initializer_list<const char*> with_ranges) {
  PassContext context = Context();
  context.precision = DefaultPolicy();
  context.precision.int8 = true;
  for (const char* name : with_ranges) context.precision.ranges[name] = {-2, 2};
  return context;
}

int Floats(const ir::Graph& graph) {
  int n = 0;
  const auto order = graph.TopologicalOrder();
  for (ir::NodeId id : *order) n += graph.value(graph.node(id).outputs[0]).dtype == DType::kF32;
  return n;
}

TEST(LowerInt8, BytesPassFromOneToTheNext) {
  const Outcome o = Optimise(std::string(kHead) + "a = Conv(x, w, b)\n c = Conv(a, w)\n d = Conv(c, w)\n y = Identity(d)}",
                             {"LowerPrecision"}, Integers({"x", "a", "c"}));
  EXPECT_EQ(CountOps(o.graph, "QuantizedConv"), 3) << ir::Print(o.graph);
  EXPECT_EQ(CountOps(o.graph, "DequantizeLinear"), 0) << ir::Print(o.graph);
  EXPECT_EQ(Floats(o.graph), 2) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 0.05);
  EXPECT_GT(o.difference, 0);
}

TEST(LowerInt8, ResidualsAndPoolsAreBytesToo) {
  const Outcome o =
      Optimise(std::string(kHead) +
                   "a = FusedConv(x, w, b) {activation=\"Relu\"}\n p = MaxPool(a) {kernel_shape=[2, 2]}\n c = Conv(p, w)\n"
                   "d = FusedConv(c, w, b, p)\n y = Sqrt(d)}",
               {"LowerPrecision"}, Integers({"x", "p", "c"}));
  EXPECT_EQ(CountOps(o.graph, "QuantizedConv"), 3) << ir::Print(o.graph);
  EXPECT_EQ(CountOps(o.graph, "DequantizeLinear"), 0) << ir::Print(o.graph);
  EXPECT_EQ(Floats(o.graph), 2) << ir::Print(o.graph);
}

TEST(LowerInt8, OtherReadersGetFloats) {
  for (const char* body : {"a = Conv(x, w, b)\n c = Conv(a, w)\n y = Add(c, a)}",   // one reader is no integer operator
                           "a = Conv(x, w, b)\n c = Mul(a, k)\n y = Conv(c, w)}"}) {
    const Outcome o = Optimise(std::string(kHead) + body, {"LowerPrecision"}, Integers({"x", "a", "c"}));
    EXPECT_EQ(CountOps(o.graph, "QuantizedConv"), 2) << ir::Print(o.graph);
    EXPECT_EQ(Floats(o.graph), 3) << ir::Print(o.graph);
    EXPECT_LT(o.difference, 0.05);
  }
  const Outcome output = Optimise(R"(graph g(x: float32[1,1,4,4]) -> (a, y) {
    w: float32[1,1,1,1] = const [0.5]
    a = Conv(x, w)
    y = Conv(a, w)
  })",
                                  {"LowerPrecision"}, Integers({"x", "a"}));
  EXPECT_EQ(Floats(output.graph), 2) << ir::Print(output.graph);
}

}  // namespace
}  // namespace tenon::passes::testing
