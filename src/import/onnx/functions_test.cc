// Model-local functions are inlined, with their attributes; recursion and blow-up are refused.
#include <gmock/gmock.h>

#include "import/onnx/test_model.h"

namespace tenon::import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void AddRef(onnx::NodeProto* node, const std::string& name, const std::string& reference,
            onnx::AttributeProto::AttributeType type) {
  AddAttr(node, name, type)->set_ref_attr_name(reference);
}

onnx::FunctionProto* AddFunction(onnx::ModelProto* m, const std::string& name, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs) {
  onnx::FunctionProto* f = m->add_functions();
  f->set_name(name);
  f->set_domain("local");
  for (const auto& i : inputs) f->add_input(i);
  for (const auto& o : outputs) f->add_output(o);
  auto* import = f->add_opset_import();
  import->set_version(17);
  import = f->add_opset_import();
  import->set_domain("local");
  import->set_version(1);
  return f;
}

onnx::ModelProto ModelCalling(const std::string& function) {
  onnx::ModelProto m = NewModel(17);
  AddInput(m.mutable_graph(), "x", DType::kF32, {"2"});
  AddNode(m.mutable_graph(), function, {"x"}, {"y"}, "call")->set_domain("local");
  AddOutput(m.mutable_graph(), "y");
  return m;
}

const Tensor kX = Tensor::FromVector<float>(Shape{2}, {-2, 4});

TEST(ImportFunctions, InlinedWithAttributesAndDefaults) {
  onnx::ModelProto m = ModelCalling("Leaky");
  onnx::FunctionProto* f = AddFunction(&m, "Leaky", {"a"}, {"c"});
  f->add_attribute("slope");
  AddRef(AddNode(f, "LeakyRelu", {"a"}, {"b"}), "alpha", "slope", onnx::AttributeProto::FLOAT);
  AddNode(f, "Neg", {"b"}, {"c"});
  SetAttr(m.mutable_graph()->mutable_node(0), "slope", 0.5F);
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->value(r->outputs()[0]).name, "y");
  EXPECT_EQ(r->node(0).name, "call/b");
  EXPECT_THAT(RunFloats(*r, {{"x", kX}}), ElementsAre(1, -4));

  // Not given: LeakyRelu's own default. Given a default by the function (field 11, newer than the headers): that.
  m.mutable_graph()->mutable_node(0)->clear_attribute();
  r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_THAT(RunFloats(*r, {{"x", kX}}), ElementsAre(0.02F, -4));
  f->clear_attribute();
  onnx::AttributeProto slope;
  slope.set_name("slope");
  slope.set_type(onnx::AttributeProto::FLOAT);
  slope.set_f(0.25F);
  f->mutable_unknown_fields()->AddLengthDelimited(11, slope.SerializeAsString());
  r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_THAT(RunFloats(*r, {{"x", kX}}), ElementsAre(0.5F, -4));
}

TEST(ImportFunctions, FunctionsCallFunctionsAndKeepTheirOwnNames) {
  onnx::ModelProto m = ModelCalling("Twice");
  onnx::FunctionProto* twice = AddFunction(&m, "Twice", {"x"}, {"y"});
  AddNode(twice, "Double", {"x"}, {"t"})->set_domain("local");
  AddNode(twice, "Double", {"t"}, {"y"})->set_domain("local");
  onnx::FunctionProto* once = AddFunction(&m, "Double", {"t"}, {"y"});
  AddNode(once, "Add", {"t", "t"}, {"y"});
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_THAT(RunFloats(*r, {{"x", kX}}), ElementsAre(-8, 16));
}

TEST(ImportFunctions, ReturningItsArgument) {
  onnx::ModelProto m = ModelCalling("Same");
  AddFunction(&m, "Same", {"a"}, {"a"});
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->value(r->outputs()[0]).name, "y");
  EXPECT_THAT(RunFloats(*r, {{"x", kX}}), ElementsAre(-2, 4));
}

TEST(ImportFunctions, FallbackForAnUnsupportedOperatorOfAKnownDomain) {
  onnx::ModelProto m = ModelCalling("Whatever");
  m.mutable_graph()->mutable_node(0)->set_domain("com.microsoft");
  onnx::FunctionProto* f = AddFunction(&m, "Whatever", {"a"}, {"b"});
  f->set_domain("com.microsoft");
  AddNode(f, "Neg", {"a"}, {"b"});
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_TRUE(CheckSupported(*r).ok());
}

TEST(ImportFunctions, RefusesRecursionAndBlowUp) {
  onnx::ModelProto m = ModelCalling("Self");
  onnx::FunctionProto* f = AddFunction(&m, "Self", {"a"}, {"b"});
  AddNode(f, "Self", {"a"}, {"b"})->set_domain("local");
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("function 'Self' calls itself"));

  m = ModelCalling("F0");
  for (int i = 0; i < 30; ++i) {
    f = AddFunction(&m, "F" + std::to_string(i), {"a"}, {"c"});
    const std::string next = i == 29 ? "Neg" : "F" + std::to_string(i + 1);
    AddNode(f, next, {"a"}, {"b"})->set_domain(i == 29 ? "" : "local");
    AddNode(f, next, {"b"}, {"c"})->set_domain(i == 29 ? "" : "local");
  }
  ImportOptions options;
  options.max_nodes = 10000;
  FailureOf(Import(m, nullptr, options), Code::kResourceLimit);
}

}  // namespace
}  // namespace tenon::import
