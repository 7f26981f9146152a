// FlexAttention: Attention where nothing is modified, else written out with the model's graphs in the middle.
#include <gmock/gmock.h>

#include <cmath>

#include "import/onnx/test_model.h"

namespace tenon::import {
namespace {

using ::testing::HasSubstr;

struct FlexModel {
  onnx::ModelProto model = NewModel(26);
  onnx::GraphProto* g = model.mutable_graph();
  onnx::NodeProto* node = nullptr;

  explicit FlexModel(const std::string& kv_heads = "2") {
    auto* preview = model.add_opset_import();
    preview->set_domain("ai.onnx.preview");
    preview->set_version(1);
    AddInput(g, "q", DType::kF32, {"b", "2", "l", "4"});
    AddInput(g, "k", DType::kF32, {"b", kv_heads, "s", "4"});
    AddInput(g, "v", DType::kF32, {"b", kv_heads, "s", "3"});
    node = AddNode(g, "FlexAttention", {"q", "k", "v"}, {"y"}, "flex");
    node->set_domain("ai.onnx.preview");
    AddOutput(g, "y");
  }
  onnx::GraphProto* Modifier(const std::string& name, const std::string& op, float operand) {
    onnx::GraphProto* body = AddGraph(node, name);
    AddInput(body, "x", DType::kF32, {"", "", "", ""});
    AddInit(body, "c", {}, {operand});
    AddNode(body, op, {"x", "c"}, {"out"});
    AddOutput(body, "out");
    return body;
  }
};

Tensor Wave(const Shape& shape, float step) {
  std::vector<float> v(static_cast<size_t>(shape.num_elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(step * static_cast<float>(i));
  return Tensor::FromVector(shape, v);
}

std::vector<float> Answer(const ir::Graph& g, int64_t kv_heads) {
  return RunFloats(g, {{"q", Wave(Shape{1, 2, 3, 4}, 0.3F)},
                       {"k", Wave(Shape{1, kv_heads, 5, 4}, 0.7F)},
                       {"v", Wave(Shape{1, kv_heads, 5, 3}, 1.1F)}});
}

TEST(FlexAttention, WithoutModifiersIsAttention) {
  auto g = Import(FlexModel().model);
  ASSERT_TRUE(g.ok()) << g.status().message();
  ASSERT_EQ(g->num_node_slots(), 1U);
  EXPECT_EQ(g->node(0).op, "Attention");
}

TEST(FlexAttention, ModifiersThatChangeNothingGiveTheSame) {
  for (const char* heads : {"2", "1"}) {
    const int64_t n = std::stoll(heads);
    const auto plain = Import(FlexModel(heads).model);
    FlexModel shifted(heads);   // a constant added to all scores falls away
    shifted.Modifier("score_mod", "Add", 3);
    FlexModel doubled(heads);
    doubled.Modifier("prob_mod", "Mul", 2);
    const auto add = Import(shifted.model), mul = Import(doubled.model);
    ASSERT_TRUE(plain.ok() && add.ok() && mul.ok()) << add.status().message() << mul.status().message();
    EXPECT_EQ(add->value(add->outputs()[0]).shape.ToString(), "[b,2,l,3]");
    const auto want = Answer(*plain, n), same = Answer(*add, n), twice = Answer(*mul, n);
    ASSERT_EQ(want.size(), 18U);
    ASSERT_EQ(same.size(), 18U);
    ASSERT_EQ(twice.size(), 18U);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(same[i], want[i], 1e-5);
      EXPECT_NEAR(twice[i], 2 * want[i], 1e-5);
    }
  }
}

TEST(FlexAttention, RefusesModifiersThatDoNotFit) {
  FlexModel two;
  AddInput(two.Modifier("score_mod", "Add", 3), "more", DType::kF32, {});
  EXPECT_THAT(FailureOf(Import(two.model)), HasSubstr("takes 2 inputs"));
  FlexModel type;
  onnx::GraphProto* body = AddGraph(type.node, "score_mod");
  AddInput(body, "x", DType::kF32, {});
  SetAttr(AddNode(body, "Cast", {"x"}, {"out"}), "to", int64_t{7});
  AddOutput(body, "out");
  EXPECT_THAT(FailureOf(Import(type.model)), HasSubstr("gives int64 for float32"));
  FlexModel nothing;
  onnx::GraphProto* empty = AddGraph(nothing.node, "prob_mod");
  AddInput(empty, "x", DType::kF32, {});
  AddOutput(empty, "out");
  EXPECT_THAT(FailureOf(Import(nothing.model)), HasSubstr("produced by no node"));
  FlexModel precision;
  SetAttr(precision.node, "softmax_precision", int64_t{7});
  EXPECT_THAT(FailureOf(Import(precision.model)), HasSubstr("softmax_precision"));
}

}  // namespace
}  // namespace tenon::import
