// Old opsets in canonical form: values where kernels can show them, structure elsewhere.
#include "import/onnx/upgrade.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "import/onnx/test_model.h"

namespace tenon::import {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// One node over float input x (and constants), output y.
struct OneNode {
  onnx::ModelProto model;
  onnx::GraphProto* g;
  onnx::NodeProto* node;

  OneNode(int64_t opset, const std::string& op, const std::vector<int64_t>& x_shape, std::vector<std::string> inputs = {"x"},
          const std::string& domain = "")
      : model(NewModel(opset)), g(model.mutable_graph()) {
    std::vector<std::string> dims;
    for (int64_t d : x_shape) dims.push_back(std::to_string(d));
    AddInput(g, "x", DType::kF32, dims);
    node = AddNode(g, op, inputs, {"y"}, "n");
    node->set_domain(domain);
    AddOutput(g, "y");
  }

  ir::Graph Graph() {
    auto r = Import(model);
    EXPECT_TRUE(r.ok()) << r.status().message();
    if (!r.ok()) return {};
    return std::move(r).value();
  }
  std::vector<float> Run(const Shape& shape, const std::vector<float>& x) {
    const ir::Graph graph = Graph();
    return graph.outputs().empty() ? std::vector<float>() : RunFloats(graph, {{"x", Tensor::FromVector<float>(shape, x)}});
  }
};

std::vector<float> Counting(int n, float step = 0.1F) {
  std::vector<float> v(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) v[static_cast<size_t>(i)] = step * static_cast<float>(i);
  return v;
}

// N12: up to opset 12 softmax runs over all axes from `axis` (default 1) on; since 13 over one axis (default the last).
TEST(FieldCase, N12SoftmaxBeforeOpset13) {
  const Shape shape{2, 3, 4};
  const std::vector<float> x = Counting(24);
  for (const bool given : {true, false}) {
    OneNode m(11, "Softmax", {2, 3, 4});
    if (given) SetAttr(m.node, "axis", int64_t{1});
    const std::vector<float> y = m.Run(shape, x);
    ASSERT_EQ(y.size(), 24U);
    float total = 0;
    for (int i = 0; i < 12; ++i) total += std::exp(x[static_cast<size_t>(i)]);
    for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(y[i], std::exp(x[i]) / total, 1e-6F);
    EXPECT_NEAR(std::accumulate(y.begin(), y.begin() + 12, 0.0F), 1, 1e-5F);
    EXPECT_NEAR(std::accumulate(y.begin() + 12, y.end(), 0.0F), 1, 1e-5F);
  }
  OneNode now(13, "Softmax", {2, 3, 4});
  SetAttr(now.node, "axis", int64_t{1});
  std::vector<float> y = now.Run(shape, x);
  ASSERT_EQ(y.size(), 24U);
  for (size_t column = 0; column < 4; ++column) EXPECT_NEAR(y[column] + y[column + 4] + y[column + 8], 1, 1e-5F);
  OneNode last(13, "Softmax", {2, 3, 4});
  y = last.Run(shape, x);
  ASSERT_EQ(y.size(), 24U);
  EXPECT_NEAR(y[0] + y[1] + y[2] + y[3], 1, 1e-5F);
}

TEST(FieldCase, N12LogSoftmaxAndHardmaxBeforeOpset13) {
  const std::vector<float> x = Counting(24);
  std::vector<float> y = OneNode(11, "LogSoftmax", {2, 3, 4}).Run(Shape{2, 3, 4}, x);
  ASSERT_EQ(y.size(), 24U);
  float total = 0;
  for (size_t i = 0; i < 12; ++i) total += std::exp(y[i]);
  EXPECT_NEAR(total, 1, 1e-5F);
  y = OneNode(11, "Hardmax", {2, 3, 4}).Run(Shape{2, 3, 4}, x);
  ASSERT_EQ(y.size(), 24U);
  EXPECT_EQ(std::accumulate(y.begin(), y.end(), 0.0F), 2);
  EXPECT_EQ(y[11], 1);
  // The last axis needs no flattening, also by its negative name.
  OneNode plain(11, "Softmax", {2, 3, 4});
  SetAttr(plain.node, "axis", int64_t{2});
  EXPECT_EQ(plain.Graph().num_node_slots(), 1U);
  OneNode wrong(11, "Softmax", {2, 3, 4});
  SetAttr(wrong.node, "axis", int64_t{4});
  EXPECT_THAT(FailureOf(Import(wrong.model)), HasSubstr("axis 4 is outside the rank 3"));
}

TEST(Upgrade, AttributesBecomeInputs) {
  OneNode clip(6, "Clip", {3});
  SetAttr(clip.node, "max", 1.0F);
  EXPECT_THAT(clip.Run(Shape{3}, {-5, 0.5F, 2}), ElementsAre(-5, 0.5F, 1));

  OneNode slice(9, "Slice", {2, 3});
  SetAttr(slice.node, "starts", std::vector<int64_t>{1});
  SetAttr(slice.node, "ends", std::vector<int64_t>{1000});
  SetAttr(slice.node, "axes", std::vector<int64_t>{1});
  EXPECT_THAT(slice.Run(Shape{2, 3}, {0, 1, 2, 3, 4, 5}), ElementsAre(1, 2, 4, 5));

  OneNode mean(11, "ReduceMean", {2, 2});
  SetAttr(mean.node, "axes", std::vector<int64_t>{1});
  SetAttr(mean.node, "keepdims", int64_t{0});
  EXPECT_THAT(mean.Run(Shape{2, 2}, {1, 3, 5, 9}), ElementsAre(2, 7));
  OneNode sum(11, "ReduceSum", {2, 2});
  EXPECT_THAT(sum.Run(Shape{2, 2}, {1, 3, 5, 9}), ElementsAre(18));

  OneNode unsqueeze(11, "Unsqueeze", {2});
  SetAttr(unsqueeze.node, "axes", std::vector<int64_t>{0, 2});
  EXPECT_EQ(unsqueeze.Graph().value(unsqueeze.Graph().outputs()[0]).shape.ToString(), "[1,2,1]");

  OneNode pad(2, "Pad", {2});
  SetAttr(pad.node, "pads", std::vector<int64_t>{1, 0});
  SetAttr(pad.node, "value", 7.0F);
  EXPECT_THAT(pad.Run(Shape{2}, {1, 2}), ElementsAre(7, 1, 2));
  OneNode oldest(1, "Pad", {2});
  SetAttr(oldest.node, "paddings", std::vector<int64_t>{0, 1});
  EXPECT_THAT(oldest.Run(Shape{2}, {1, 2}), ElementsAre(1, 2, 0));

  OneNode reshape(1, "Reshape", {4});
  SetAttr(reshape.node, "shape", std::vector<int64_t>{2, -1});
  EXPECT_EQ(reshape.Graph().value(reshape.Graph().outputs()[0]).shape.ToString(), "[2,2]");

  OneNode cast(1, "Cast", {2});
  SetAttr(cast.node, "to", "INT64");
  EXPECT_EQ(cast.Graph().value(cast.Graph().outputs()[0]).dtype, DType::kI64);
  OneNode bad(1, "Cast", {2});
  SetAttr(bad.node, "to", "WIBBLE");
  FailureOf(Import(bad.model));
}

TEST(Upgrade, SplitKeepsItsParts) {
  OneNode m(11, "Split", {3});
  m.node->add_output("z");
  SetAttr(m.node, "split", std::vector<int64_t>{1, 2});
  AddOutput(m.g, "z");
  const ir::Graph g = m.Graph();
  const auto out = RunGraph(g, {{"x", Tensor::FromVector<float>(Shape{3}, {1, 2, 3})}});
  EXPECT_EQ(out.at("y").shape(), (Shape{1}));
  EXPECT_EQ(out.at("z").Data<float>()[1], 3);
}

TEST(Upgrade, DropoutIsIdentityAndItsMaskTrue) {
  for (const int64_t opset : {1, 6, 7, 10, 12, 13, 22}) {
    OneNode m(opset, "Dropout", {2});
    EXPECT_THAT(m.Run(Shape{2}, {1, 2}), ElementsAre(1, 2));
    EXPECT_EQ(m.Graph().num_node_slots(), 1U);
    m.node->add_output("mask");
    EXPECT_EQ(m.Graph().num_node_slots(), 1U) << "an unused mask costs nothing";
    AddOutput(m.g, "mask");
    const ir::Graph g = m.Graph();
    ASSERT_EQ(g.outputs().size(), 2U);
    EXPECT_EQ(g.value(g.outputs()[1]).dtype, opset >= 10 ? DType::kBool : DType::kF32);
  }
  OneNode training(13, "Dropout", {2}, {"x", "", "t"});
  auto* t = training.g->add_initializer();
  t->set_name("t");
  t->set_data_type(9);
  t->add_int32_data(1);
  EXPECT_EQ(training.Graph().node(0).op, "Dropout") << "training drops elements";
}

TEST(Upgrade, BroadcastOfOpset6) {
  OneNode m(6, "Add", {2, 2, 2}, {"x", "b"});
  AddInit(m.g, "b", {2}, {10, 20});
  SetAttr(m.node, "broadcast", int64_t{1});
  SetAttr(m.node, "axis", int64_t{1});
  EXPECT_THAT(m.Run(Shape{2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), ElementsAre(10, 11, 22, 23, 14, 15, 26, 27));
  OneNode prelu(6, "PRelu", {1, 2, 2}, {"x", "s"});
  AddInit(prelu.g, "s", {2}, {10, 100});
  EXPECT_THAT(prelu.Run(Shape{1, 2, 2}, {-1, 1, -1, 1}), ElementsAre(-10, 1, -100, 1));
  OneNode wrong(6, "Add", {2, 2}, {"x", "b"});
  AddInit(wrong.g, "b", {2}, {10, 20});
  SetAttr(wrong.node, "broadcast", int64_t{1});
  SetAttr(wrong.node, "axis", int64_t{2});
  EXPECT_THAT(FailureOf(Import(wrong.model)), HasSubstr("axis 2"));
}

TEST(Upgrade, BatchNormalizationOfOldOpsets) {
  for (const int64_t opset : {6, 7, 9, 14, 15}) {
    OneNode m(opset, "BatchNormalization", {1, 2, 1}, {"x", "s", "b", "m", "v"});
    AddInit(m.g, "s", {2}, {1, 2});
    AddInit(m.g, "b", {2}, {0, 1});
    AddInit(m.g, "m", {2}, {1, 1});
    AddInit(m.g, "v", {2}, {4, 9});
    SetAttr(m.node, "epsilon", 0.0F);
    if (opset < 14) {
      for (const char* name : {"o1", "o2", "o3", "o4"}) m.node->add_output(name);
    }
    EXPECT_THAT(m.Run(Shape{1, 2, 1}, {5, 7}), Pointwise(FloatNear(1e-5F), {2.0F, 5.0F}));
    if (opset < 14) {
      AddOutput(m.g, "o1");
      FailureOf(Import(m.model), Code::kUnsupported);
    }
  }
  OneNode m(7, "BatchNormalization", {1, 1, 2}, {"x", "s", "b", "m", "v"});
  AddInit(m.g, "s", {1, 2}, {1, 2});
  AddInit(m.g, "b", {1, 2}, {0, 1});
  AddInit(m.g, "m", {1, 2}, {1, 1});
  AddInit(m.g, "v", {1, 2}, {4, 9});
  SetAttr(m.node, "epsilon", 0.0F);
  SetAttr(m.node, "spatial", int64_t{0});
  EXPECT_THAT(m.Run(Shape{1, 1, 2}, {5, 7}), Pointwise(FloatNear(1e-5F), {2.0F, 5.0F}));
}

TEST(Upgrade, GroupNormalizationOfOpset18) {
  OneNode m(18, "GroupNormalization", {1, 4, 1}, {"x", "s", "b"});
  AddInit(m.g, "s", {2}, {1, 10});
  AddInit(m.g, "b", {2}, {0, 5});
  SetAttr(m.node, "num_groups", int64_t{2});
  SetAttr(m.node, "epsilon", 0.0F);
  EXPECT_THAT(m.Run(Shape{1, 4, 1}, {1, 3, 2, 6}), Pointwise(FloatNear(1e-4F), {-1.0F, 1.0F, -5.0F, 15.0F}));
}

const ir::Node* Find(const ir::Graph& g, const std::string& op) {
  for (size_t i = 0; i < g.num_node_slots(); ++i) {
    if (g.node(static_cast<ir::NodeId>(i)).op == op) return &g.node(static_cast<ir::NodeId>(i));
  }
  return nullptr;
}

TEST(Upgrade, UpsampleAndOldResize) {
  OneNode oldest(1, "Upsample", {1, 1, 2, 2});
  SetAttr(oldest.node, "height_scale", 2.0F);
  SetAttr(oldest.node, "width_scale", 3.0F);
  OneNode seven(7, "Upsample", {1, 1, 2, 2});
  SetAttr(seven.node, "scales", std::vector<float>{1, 1, 2, 3});
  OneNode nine(9, "Upsample", {1, 1, 2, 2}, {"x", "s"});
  AddInit(nine.g, "s", {4}, {1, 1, 2, 3});
  OneNode ten(10, "Resize", {1, 1, 2, 2}, {"x", "s"});
  AddInit(ten.g, "s", {4}, {1, 1, 2, 3});
  for (OneNode* m : {&oldest, &seven, &nine, &ten}) {
    const ir::Graph g = m->Graph();
    const ir::Node* n = Find(g, "Resize");
    ASSERT_NE(n, nullptr);
    ASSERT_EQ(n->inputs.size(), 3U);
    EXPECT_EQ(n->inputs[1], ir::kNone);
    EXPECT_EQ(g.value(n->inputs[2]).constant.Data<float>()[3], 3);
    EXPECT_EQ(n->attrs.String("coordinate_transformation_mode", ""), "asymmetric");
    EXPECT_EQ(n->attrs.String("nearest_mode", ""), "floor");
  }
  OneNode both(10, "Resize", {1, 1, 2, 2}, {"x", "s"});
  AddInit(both.g, "s", {4}, {1, 1, 2, 0.5F});
  const ir::Graph g = both.Graph();
  ASSERT_EQ(g.num_node_slots(), 2U);
  EXPECT_EQ(g.node(0).attrs.String("nearest_mode", ""), "floor");
  EXPECT_EQ(g.node(1).attrs.String("nearest_mode", ""), "ceil");
}

TEST(Upgrade, ResizeOfTensorFlowExporters) {
  OneNode m(11, "Resize", {1, 1, 2, 2}, {"x", "", "s"});
  AddInit(m.g, "s", {4}, {1, 1, 2, 2});
  SetAttr(m.node, "coordinate_transformation_mode", "tf_half_pixel_for_nn");
  SetAttr(m.node, "nearest_mode", "floor");
  const ir::Graph g = m.Graph();
  ASSERT_EQ(g.num_node_slots(), 1U);
  EXPECT_EQ(g.node(0).attrs.String("coordinate_transformation_mode", ""), "half_pixel");
  EXPECT_EQ(g.node(0).attrs.String("nearest_mode", ""), "round_prefer_ceil");
  m.node->mutable_attribute()->RemoveLast();
  FailureOf(Import(m.model), Code::kUnsupported);
}

TEST(Upgrade, SmallThings) {
  OneNode grid(16, "GridSample", {1, 1, 2, 2}, {"x", "x"});
  SetAttr(grid.node, "mode", "bicubic");
  EXPECT_EQ(grid.Graph().node(0).attrs.String("mode", ""), "cubic");
  OneNode topk(1, "TopK", {4});
  SetAttr(topk.node, "k", int64_t{2});
  const ir::Graph g = topk.Graph();
  EXPECT_EQ(g.value(g.node(0).inputs.at(1)).constant.Data<int64_t>()[0], 2);
  OneNode tile(1, "Tile", {1, 2}, {"x", "t", "a"});
  AddInts(tile.g, "t", {2});
  AddInts(tile.g, "a", {1});
  EXPECT_EQ(tile.Graph().value(tile.Graph().outputs()[0]).shape.ToString(), "[1,4]");
  EXPECT_EQ(OneNode(9, "Scatter", {2}, {"x", "x", "x"}).model.graph().node_size(), 1);
}

TEST(Upgrade, MicrosoftNormalisations) {
  OneNode m(17, "SkipLayerNormalization", {1, 2}, {"x", "skip", "gamma", "", "bias"}, "com.microsoft");
  AddInit(m.g, "skip", {1, 2}, {1, 2});
  AddInit(m.g, "gamma", {2}, {1, 1});
  AddInit(m.g, "bias", {2}, {0, 5});
  for (const char* name : {"", "", "sum"}) m.node->add_output(name);
  AddOutput(m.g, "sum");
  const ir::Graph g = m.Graph();
  const auto out = RunGraph(g, {{"x", Tensor::FromVector<float>(Shape{1, 2}, {1, 1})}});
  EXPECT_EQ(out.at("sum").Data<float>()[1], 8);
  EXPECT_NEAR(out.at("y").Data<float>()[1], 1, 1e-4F);
  OneNode simple(17, "SimplifiedLayerNormalization", {1, 2}, {"x", "gamma"});
  AddInit(simple.g, "gamma", {2}, {1, 1});
  SetAttr(simple.node, "axis", int64_t{-1});
  SetAttr(simple.node, "epsilon", 0.0F);
  EXPECT_THAT(simple.Run(Shape{1, 2}, {3, -3}), Pointwise(FloatNear(1e-5F), {1.0F, -1.0F}));
}

TEST(Upgrade, MicrosoftActivations) {
  OneNode fast(17, "FastGelu", {2}, {"x", "b"}, "com.microsoft");
  AddInit(fast.g, "b", {2}, {1, 0});
  EXPECT_THAT(fast.Run(Shape{2}, {0, 0}), Pointwise(FloatNear(1e-4F), {0.8412F, 0.0F}));
  OneNode quick(17, "QuickGelu", {1}, {"x"}, "com.microsoft");
  EXPECT_THAT(quick.Run(Shape{1}, {1}), Pointwise(FloatNear(1e-4F), {1 / (1 + std::exp(-1.702F))}));
}

TEST(Upgrade, MicrosoftIntegerOperators) {
  OneNode m(17, "QLinearAdd", {2}, {"q", "s", "z", "q", "s", "z", "s2", "z"}, "com.microsoft");
  AddNode(m.g, "QuantizeLinear", {"x", "s", "z"}, {"q"});
  AddNode(m.g, "DequantizeLinear", {"y", "s2", "z"}, {"f"});
  AddInit(m.g, "s", {}, {0.5F});
  AddInit(m.g, "s2", {}, {1.0F});
  auto* z = m.g->add_initializer();
  z->set_name("z");
  z->set_data_type(2);
  z->add_int32_data(128);
  m.g->mutable_output(0)->set_name("f");
  EXPECT_THAT(m.Run(Shape{2}, {1.5F, -4}), ElementsAre(3, -8));
}

TEST(Upgrade, LossesAreExpanded) {
  OneNode m(13, "SoftmaxCrossEntropyLoss", {2, 3}, {"x", "labels", "w"});
  AddInts(m.g, "labels", {2, -1});
  AddInit(m.g, "w", {3}, {1, 1, 4});
  SetAttr(m.node, "ignore_index", int64_t{-1});
  const float total = std::exp(1.0F) + std::exp(2.0F) + std::exp(3.0F);
  EXPECT_THAT(m.Run(Shape{2, 3}, {1, 2, 3, 0, 0, 0}), Pointwise(FloatNear(1e-5F), {std::log(total) - 3}));
}

TEST(Upgrade, ScanOfOpset8IsNested) {
  onnx::ModelProto m = NewModel(8);
  auto* g = m.mutable_graph();
  AddInput(g, "s", DType::kF32, {"2", "3"});
  AddInput(g, "x", DType::kF32, {"2", "5", "3"});
  auto* scan = AddNode(g, "Scan", {"", "s", "x"}, {"last", "all"}, "scan");
  SetAttr(scan, "num_scan_inputs", int64_t{1});
  auto* body = AddGraph(scan, "body");
  AddInput(body, "a", DType::kF32, {"3"});
  AddInput(body, "b", DType::kF32, {"3"});
  AddNode(body, "Add", {"a", "b"}, {"c"});
  AddNode(body, "Identity", {"c"}, {"d"});
  AddOutput(body, "c");
  AddOutput(body, "d");
  AddOutput(g, "last");
  AddOutput(g, "all");
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->value(r->outputs()[0]).shape.ToString(), "[2,3]");
  EXPECT_EQ(r->value(r->outputs()[1]).shape.ToString(), "[2,5,3]");
}

TEST(Upgrade, NewerOpsetsAreReadWithANote) {
  OneNode m(onnx_format::kNewestOpset + 1, "Relu", {2});
  ImportReport report;
  ASSERT_TRUE(Import(m.model, &report).ok());
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_THAT(report.notes[0], HasSubstr("newer than the newest known"));
}

}  // namespace
}  // namespace tenon::import
