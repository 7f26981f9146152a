// G08: sub-graphs and what they take from outside, at any depth.
#include <gmock/gmock.h>

#include "import/onnx/test_model.h"
#include "ops/control_flow.h"

namespace tenon::import {
namespace {

using ::testing::HasSubstr;

// If(cond) with empty branches for the test to fill.
struct IfModel {
  onnx::ModelProto model = NewModel(17);
  onnx::GraphProto* g = model.mutable_graph();
  onnx::NodeProto* node = nullptr;
  onnx::GraphProto* then_branch = nullptr;
  onnx::GraphProto* else_branch = nullptr;

  IfModel() {
    AddInput(g, "cond", DType::kBool, {});
    AddInput(g, "x", DType::kF32, {"n", "3"});
    node = AddNode(g, "If", {"cond"}, {"y"}, "choose");
    then_branch = AddGraph(node, "then_branch");
    else_branch = AddGraph(node, "else_branch");
    AddOutput(g, "y");
  }
};

const ir::Node& OnlyNode(const ir::Graph& g, const std::string& op) {
  for (size_t i = 0; i < g.num_node_slots(); ++i) {
    if (g.node(static_cast<ir::NodeId>(i)).op == op) return g.node(static_cast<ir::NodeId>(i));
  }
  ADD_FAILURE() << "no " << op;
  return g.node(0);
}

// (a) the outputs of a branch and of a loop's condition stay, whoever reads them.
TEST(FieldCase, G08aOutputsOfBodiesStay) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"3"});
  AddInts(g, "trips", {4})->clear_dims();
  auto* loop = AddNode(g, "Loop", {"trips", "", "x"}, {"y", "all"}, "loop");
  auto* body = AddGraph(loop, "body");
  AddInput(body, "i", DType::kI64, {});
  AddInput(body, "go", DType::kBool, {});
  AddInput(body, "state", DType::kF32, {"3"});
  AddNode(body, "Identity", {"go"}, {"go_on"});
  AddNode(body, "Add", {"state", "x"}, {"next"});
  for (const char* name : {"go_on", "next", "state"}) AddOutput(body, name);
  AddOutput(g, "y");
  AddOutput(g, "all");
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  const ir::Node& n = OnlyNode(*r, "Loop");
  ASSERT_EQ(n.bodies.size(), 1U);
  EXPECT_EQ(ops::NumCaptures(n), 1);
  EXPECT_EQ(n.inputs.size(), 4U);  // trips, absent condition, x, x captured
  EXPECT_EQ(n.inputs[1], ir::kNone);
  EXPECT_EQ(n.bodies[0]->inputs().size(), 4U);
  EXPECT_EQ(n.bodies[0]->outputs().size(), 3U);
  EXPECT_EQ(r->value(r->outputs()[1]).dtype, DType::kF32);
}

// (b) a branch may return a value of the outer scope, a constant, or a capture twice.
TEST(FieldCase, G08bBranchReturnsAnOuterValue) {
  IfModel m;
  AddOutput(m.then_branch, "x");
  AddNode(m.else_branch, "Neg", {"x"}, {"negative"});
  AddOutput(m.else_branch, "negative");
  auto r = Import(m.model);
  ASSERT_TRUE(r.ok()) << r.status().message();
  const ir::Node& n = OnlyNode(*r, "If");
  EXPECT_EQ(ops::NumCaptures(n), 1);
  const ir::Graph& then_body = *n.bodies[0];
  EXPECT_EQ(then_body.outputs()[0], then_body.inputs()[0]);
  EXPECT_EQ(r->value(r->outputs()[0]).shape.ToString().substr(0, 1), "[");
  EXPECT_EQ(r->value(r->outputs()[0]).shape.rank(), 2);
}

// (c) a value that only a branch reads is read through the node, so that removing its producer is seen there.
TEST(FieldCase, G08cCapturesAreInputsOfTheNode) {
  IfModel m;
  AddNode(m.g, "Identity", {"x"}, {"same"});
  AddNode(m.then_branch, "Relu", {"same"}, {"a"});
  AddOutput(m.then_branch, "a");
  AddNode(m.else_branch, "Neg", {"x"}, {"b"});
  AddOutput(m.else_branch, "b");
  auto r = Import(m.model);  // the If stands before the Identity in the file: it is put after it
  ASSERT_TRUE(r.ok()) << r.status().message();
  const ir::Node& n = OnlyNode(*r, "If");
  ASSERT_EQ(n.inputs.size(), 3U);
  EXPECT_EQ(r->value(n.inputs[1]).name, "same");
  EXPECT_EQ(r->value(n.inputs[2]).name, "x");
  // Both bodies receive both.
  for (const auto& body : n.bodies) EXPECT_EQ(body->inputs().size(), 2U);
  EXPECT_TRUE(ir::Verify(*r).ok());
}

// (d) an input of the body hides an outer value of the same name.
TEST(FieldCase, G08dBodyInputNamedLikeAnOuterValue) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"3"});
  AddInput(g, "start", DType::kF32, {"3"});
  AddInts(g, "trips", {2})->clear_dims();
  auto* body = AddGraph(AddNode(g, "Loop", {"trips", "", "start"}, {"y"}, "loop"), "body");
  AddInput(body, "i", DType::kI64, {});
  AddInput(body, "go", DType::kBool, {});
  AddInput(body, "x", DType::kF32, {"3"});
  AddNode(body, "Neg", {"x"}, {"next"});
  AddOutput(body, "go");
  AddOutput(body, "next");
  AddOutput(g, "y");
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(ops::NumCaptures(OnlyNode(*r, "Loop")), 0);
}

// (e) two levels down; the level between does not use the value itself. Constants need no capture.
TEST(FieldCase, G08eTwoLevelsDeep) {
  IfModel m;
  AddInit(m.g, "w", {3}, {1, 2, 3});
  auto* inner = AddNode(m.then_branch, "If", {"cond"}, {"a"}, "inner");
  auto* deep = AddGraph(inner, "then_branch");
  AddNode(deep, "Mul", {"x", "w"}, {"p"});
  AddOutput(deep, "p");
  auto* other = AddGraph(inner, "else_branch");
  AddNode(other, "Neg", {"x"}, {"q"});
  AddOutput(other, "q");
  AddOutput(m.then_branch, "a");
  AddNode(m.else_branch, "Neg", {"x"}, {"b"});
  AddOutput(m.else_branch, "b");
  auto r = Import(m.model);
  ASSERT_TRUE(r.ok()) << r.status().message();
  const ir::Node& outer = OnlyNode(*r, "If");
  EXPECT_EQ(ops::NumCaptures(outer), 2);  // cond and x
  const ir::Node& nested = OnlyNode(*outer.bodies[0], "If");
  EXPECT_EQ(ops::NumCaptures(nested), 1);
  const ir::Graph& deepest = *nested.bodies[0];
  const ir::Node& mul = OnlyNode(deepest, "Mul");
  EXPECT_TRUE(deepest.IsConstant(mul.inputs[1]));
  EXPECT_TRUE(ir::Verify(*r).ok());
  EXPECT_EQ(r->value(r->outputs()[0]).shape.rank(), 2);
}

TEST(ImportBodies, ErrorsNameTheWay) {
  IfModel m;
  AddNode(m.then_branch, "Relu", {"nowhere"}, {"a"}, "deep");
  AddOutput(m.then_branch, "a");
  AddOutput(m.else_branch, "x");
  EXPECT_THAT(FailureOf(Import(m.model)), HasSubstr("node 'choose' (If): then_branch: node 'deep' (Relu): input 0 'nowhere'"));
  IfModel missing;
  missing.node->mutable_attribute()->RemoveLast();
  AddOutput(missing.then_branch, "x");
  EXPECT_THAT(FailureOf(Import(missing.model)), HasSubstr("no attribute 'else_branch'"));
}

TEST(ImportBodies, ListedInitializersOfOldFilesAreConstants) {
  IfModel m;
  AddInput(m.then_branch, "w", DType::kF32, {"3"});
  AddInit(m.then_branch, "w", {3}, {1, 2, 3});
  AddNode(m.then_branch, "Mul", {"x", "w"}, {"a"});
  AddOutput(m.then_branch, "a");
  AddOutput(m.else_branch, "x");
  auto r = Import(m.model);
  ASSERT_TRUE(r.ok()) << r.status().message();
}

TEST(ImportBodies, SequenceMap) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  auto* v = g->add_input();
  v->set_name("seq");
  v->mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  AddInput(g, "k", DType::kF32, {});
  AddInput(g, "outside", DType::kF32, {});
  auto* body = AddGraph(AddNode(g, "SequenceMap", {"seq", "k"}, {"y"}, "map"), "body");
  AddInput(body, "element", DType::kF32, {"n"});
  AddInput(body, "factor", DType::kF32, {});
  AddNode(body, "Mul", {"element", "factor"}, {"p"});
  AddNode(body, "Add", {"p", "outside"}, {"q"});
  AddOutput(body, "q");
  AddOutput(g, "y");
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_TRUE(ir::Verify(*r).ok());
  const ir::Node& map = OnlyNode(*r, "SequenceMap");
  EXPECT_EQ(ops::NumCaptures(map), 1);
  EXPECT_EQ(map.bodies[0]->inputs().size(), 3U);
  EXPECT_FALSE(map.bodies[0]->value(map.bodies[0]->inputs()[0]).is_sequence);
  EXPECT_TRUE(r->value(r->outputs()[0]).is_sequence);
  EXPECT_EQ(r->value(r->outputs()[0]).dtype, DType::kF32);
}

TEST(ImportBodies, NestingIsBounded) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "c", DType::kBool, {});
  AddInput(g, "x", DType::kF32, {"1"});
  onnx::GraphProto* at = g;
  for (int i = 0; i < 200; ++i) {
    auto* n = AddNode(at, "If", {"c"}, {"y" + std::to_string(i)});
    AddOutput(at, "y" + std::to_string(i));
    AddOutput(AddGraph(n, "else_branch"), "x");
    at = AddGraph(n, "then_branch");
  }
  AddOutput(at, "x");
  FailureOf(Import(m));
}

}  // namespace
}  // namespace tenon::import
