// Forms of the first opsets that no node case of today can say, with their results worked out by hand.
#include <gmock/gmock.h>

#include "import/onnx/test_model.h"

namespace tenon::import {
namespace {

using ::testing::ElementsAre;

// One node over x (and what the test adds), its output y.
struct OldNode {
  onnx::ModelProto model;
  onnx::GraphProto* g;
  onnx::NodeProto* node;

  OldNode(int64_t opset, const std::string& op, const std::vector<std::string>& extents, const std::vector<std::string>& inputs)
      : model(NewModel(opset)), g(model.mutable_graph()) {
    AddInput(g, "x", DType::kF32, extents);
    node = AddNode(g, op, inputs, {"y"}, "old");
    AddOutput(g, "y");
  }
  std::vector<float> Run(const Shape& shape, const std::vector<float>& x) {
    auto graph = Import(model);
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    if (!graph.ok()) return {};
    return RunFloats(*graph, {{"x", Tensor::FromVector<float>(shape, x)}});
  }
};

TEST(OldForms, UpsampleScalesTheLastTwoAxes) {
  OldNode n(1, "Upsample", {"1", "1", "1", "2"}, {"x"});
  SetAttr(n.node, "height_scale", 2.0F);
  SetAttr(n.node, "width_scale", 2.0F);
  SetAttr(n.node, "mode", "nearest");
  EXPECT_THAT(n.Run(Shape{1, 1, 1, 2}, {1, 2}), ElementsAre(1, 1, 2, 2, 1, 1, 2, 2));
}

TEST(OldForms, PadHasPaddings) {
  OldNode n(1, "Pad", {"1", "2"}, {"x"});
  SetAttr(n.node, "paddings", std::vector<int64_t>{0, 1, 1, 0});
  SetAttr(n.node, "value", 9.0F);
  EXPECT_THAT(n.Run(Shape{1, 2}, {1, 2}), ElementsAre(9, 1, 2, 9, 9, 9));
}

TEST(OldForms, BatchNormalizationNamesItsHintsAndTest) {
  OldNode n(1, "BatchNormalization", {"1", "1", "2"}, {"x", "s", "b", "m", "v"});
  for (const auto& [name, value] : {std::pair{"s", 2.0F}, {"b", 1.0F}, {"m", 3.0F}, {"v", 4.0F}})
    AddInit(n.g, name, {1}, {value});
  SetAttr(n.node, "consumed_inputs", std::vector<int64_t>{0, 0, 0, 1, 1});
  SetAttr(n.node, "is_test", int64_t{1});
  SetAttr(n.node, "epsilon", 0.0F);
  EXPECT_THAT(n.Run(Shape{1, 1, 2}, {3, 5}), ElementsAre(1, 3));
}

TEST(OldForms, CastNamesItsType) {
  OldNode n(1, "Cast", {"2"}, {"x"});
  SetAttr(n.node, "to", "INT32");
  auto g = Import(n.model);
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_EQ(g->value(g->outputs()[0]).dtype, DType::kI32);
}

TEST(OldForms, LpPoolHasAFloatPower) {
  OldNode n(1, "LpPool", {"1", "1", "1", "2"}, {"x"});
  SetAttr(n.node, "kernel_shape", std::vector<int64_t>{1, 2});
  SetAttr(n.node, "p", 2.0F);
  EXPECT_THAT(n.Run(Shape{1, 1, 1, 2}, {3, 4}), ElementsAre(5));
}

TEST(OldForms, FillsTakeAShapeFromAttributesOrInputs) {
  OldNode constant(1, "ConstantFill", {"2"}, {"x"});
  SetAttr(constant.node, "value", 7.0F);
  SetAttr(constant.node, "extra_shape", std::vector<int64_t>{2});
  EXPECT_THAT(constant.Run(Shape{2}, {0, 0}), ElementsAre(7, 7, 7, 7));
  SetAttr(constant.node, "input_as_shape", int64_t{1});
  EXPECT_THAT(constant.Run(Shape{2}, {1, 1}), ElementsAre(7, 7));
  OldNode given(1, "GivenTensorFill", {"3"}, {"x"});
  SetAttr(given.node, "values", std::vector<float>{1, 2, 3});
  EXPECT_THAT(given.Run(Shape{3}, {0, 0, 0}), ElementsAre(1, 2, 3));
}

TEST(OldForms, DynamicSliceTakesLists) {
  OldNode n(1, "DynamicSlice", {"4"}, {"x", "from", "to"});
  AddInts(n.g, "from", {1});
  AddInts(n.g, "to", {3});
  EXPECT_THAT(n.Run(Shape{4}, {1, 2, 3, 4}), ElementsAre(2, 3));
}

TEST(OldForms, MeanVarianceNormalizationMayLeaveTheVariance) {
  OldNode n(1, "MeanVarianceNormalization", {"1", "2", "1", "2"}, {"x"});
  SetAttr(n.node, "normalize_variance", int64_t{0});
  EXPECT_THAT(n.Run(Shape{1, 2, 1, 2}, {1, 3, 5, 9}), ElementsAre(-1, 1, -2, 2));
  SetAttr(n.node, "across_channels", int64_t{1});
  EXPECT_THAT(n.Run(Shape{1, 2, 1, 2}, {1, 2, 3, 6}), ElementsAre(-2, -1, 0, 3));
}

TEST(OldForms, LoopOfOpset1) {
  OldNode n(1, "Loop", {"1"}, {"trips", "", "x"});
  AddInts(n.g, "trips", {3})->clear_dims();
  auto* body = AddGraph(n.node, "body");
  AddInput(body, "i", DType::kI64, {});
  AddInput(body, "go", DType::kBool, {});
  AddInput(body, "s", DType::kF32, {"1"});
  AddNode(body, "Identity", {"go"}, {"on"});
  AddNode(body, "Add", {"s", "s"}, {"twice"});
  AddOutput(body, "on");
  AddOutput(body, "twice");
  auto g = Import(n.model);
  EXPECT_TRUE(g.ok()) << g.status().message();
}

TEST(Attention, OfMixedTypesIsWidened) {
  onnx::ModelProto m = NewModel(24);
  auto* g = m.mutable_graph();
  AddInput(g, "q", DType::kF16, {"1", "1", "1", "2"});
  AddInput(g, "k", DType::kF16, {"1", "1", "2", "2"});
  AddInput(g, "v", DType::kF32, {"1", "1", "2", "2"});
  AddInput(g, "mask", DType::kI32, {"1", "2"});
  AddNode(g, "Attention", {"q", "k", "v", "mask"}, {"y"}, "mixed");
  AddOutput(g, "y");
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->value(r->outputs()[0]).dtype, DType::kF16);
}

}  // namespace
}  // namespace tenon::import
