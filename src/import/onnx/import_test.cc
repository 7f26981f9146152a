// Plain graphs: names, types, symbols, absent inputs, constants in all forms, and what is refused.
#include "import/import.h"

#include <gmock/gmock.h>

#include "import/onnx/test_model.h"
#include "ir/text.h"

namespace tenon::import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ImportOnnx, NamesTypesAndSymbols) {
  onnx::ModelProto m = NewModel(17);
  m.set_producer_name("maker");
  m.set_producer_version("2.1");
  auto* meta = m.add_metadata_props();
  meta->set_key("labels");
  meta->set_value("a b");
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"batch", "3", "?", "?", "-1", "", "s0 + 1"});
  AddNode(g, "Relu", {"x"}, {"y"}, "r");
  AddOutput(g, "y");
  ImportReport report;
  auto r = Import(m, &report);
  ASSERT_TRUE(r.ok()) << r.status().message();
  // "?" twice is two different extents.
  EXPECT_EQ(r->value(r->inputs()[0]).shape.ToString(), "[batch,3,x.2,x.3,x.4,x.5,s0___1]");
  EXPECT_EQ(r->value(r->outputs()[0]).name, "y");
  EXPECT_EQ(r->value(r->outputs()[0]).dtype, DType::kF32);
  EXPECT_EQ(r->metadata.at("labels"), "a b");
  EXPECT_EQ(report.producer, "maker 2.1");
  EXPECT_EQ(report.opsets.at(""), 17);
}

TEST(ImportOnnx, NodesInAnyOrderButNotInACycle) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"2"});
  AddNode(g, "Relu", {"b"}, {"c"}, "last");
  AddNode(g, "Relu", {"x"}, {"a"});
  AddNode(g, "Relu", {"a"}, {"b"});
  AddOutput(g, "c");
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  g->mutable_node(1)->set_input(0, "c");
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("cycle through node 'last'"));
}

TEST(ImportOnnx, RefusesContradictions) {
  const auto base = [] {
    onnx::ModelProto m = NewModel(17);
    AddInput(m.mutable_graph(), "x", DType::kF32, {"2"});
    AddNode(m.mutable_graph(), "Relu", {"x"}, {"y"}, "r");
    AddOutput(m.mutable_graph(), "y");
    return m;
  };
  auto m = base();
  AddNode(m.mutable_graph(), "Relu", {"x"}, {"y"}, "again");
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("'y' is produced twice"));
  m = base();
  AddInput(m.mutable_graph(), "unused", DType::kF32, {"2"});
  AddNode(m.mutable_graph(), "Relu", {"y"}, {"unused"}, "again");
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("'unused' is defined twice"));
  m = base();
  m.mutable_graph()->mutable_node(0)->set_input(0, "nowhere");
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("node 'r' (Relu): input 0 'nowhere' is produced by no node"));
  m = base();
  AddOutput(m.mutable_graph(), "z");
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("output 'z'"));
  m = base();
  AddOutput(m.mutable_graph(), "y");
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("output 'y' is given twice"));
  m = base();
  m.mutable_graph()->clear_output();
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("no outputs"));
  m = base();
  m.clear_opset_import();
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("no opset"));
  m = base();
  m.mutable_opset_import(0)->set_version(0);
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("opset version 0"));
  m = base();
  m.mutable_graph()->mutable_node(0)->clear_output();
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("has no outputs"));
  m = base();
  SetType(m.mutable_graph()->mutable_output(0), "y", DType::kI64, {"2"});
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("declared as int64 but is float32"));
  m = base();
  m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(99);
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("element type 99"));
}

TEST(ImportOnnx, LyingShapesOfInnerValuesAndOutputsAreIgnored) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"2"});
  AddNode(g, "Relu", {"x"}, {"a"});
  AddNode(g, "Relu", {"a"}, {"y"});
  SetType(g->add_value_info(), "a", DType::kF32, {"7", "7"});
  SetType(g->add_output(), "y", DType::kF32, {"9"});
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->value(r->outputs()[0]).shape.ToString(), "[2]");
}

TEST(ImportOnnx, AttributeOfTheWrongKind) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"2", "3"});
  SetAttr(AddNode(g, "Softmax", {"x"}, {"y"}, "s"), "axis", 1.5F);
  AddOutput(g, "y");
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("node 's' (Softmax): attribute 'axis' is a float; it must be an integer"));
}

TEST(ImportOnnx, UnknownOperatorsAreKeptAndNamed) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"2"});
  AddNode(g, "Wibble", {"x"}, {"a"}, "w")->set_domain("org.example");
  AddNode(g, "Relu", {"a"}, {"y"});
  SetType(g->add_output(), "y", DType::kF32, {"2"});
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->value(r->outputs()[0]).dtype, DType::kF32);
  const Status s = CheckSupported(*r);
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_THAT(s.message(), HasSubstr("node 'w' (Wibble, domain org.example, opsets ai.onnx 17)"));
}

TEST(ImportOnnx, ConstantsInAllForms) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  SetAttr(AddNode(g, "Constant", {}, {"a"}), "value_float", 1.5F);
  SetAttr(AddNode(g, "Constant", {}, {"b"}), "value_floats", std::vector<float>{1, 2});
  SetAttr(AddNode(g, "Constant", {}, {"c"}), "value_int", int64_t{7});
  SetAttr(AddNode(g, "Constant", {}, {"d"}), "value_ints", std::vector<int64_t>{1, 2, 3});
  SetAttr(AddNode(g, "Constant", {}, {"e"}), "value_string", "s");
  auto* sparse =
      AddAttr(AddNode(g, "Constant", {}, {"f"}), "sparse_value", onnx::AttributeProto::SPARSE_TENSOR)->mutable_sparse_tensor();
  sparse->add_dims(2);
  sparse->add_dims(2);
  auto* values = sparse->mutable_values();
  values->set_data_type(1);
  values->add_dims(1);
  values->add_float_data(9);
  auto* indices = sparse->mutable_indices();
  indices->set_data_type(7);
  indices->add_dims(1);
  indices->add_dims(2);
  indices->add_int64_data(1);
  indices->add_int64_data(0);
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) AddOutput(g, name);
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  const auto at = [&](size_t i) -> const Tensor& { return r->value(r->outputs()[i]).constant; };
  EXPECT_EQ(*at(0).Data<float>(), 1.5F);
  EXPECT_EQ(at(1).Data<float>()[1], 2);
  EXPECT_EQ(*at(2).Data<int64_t>(), 7);
  EXPECT_EQ(at(3).shape(), (Shape{3}));
  EXPECT_EQ(*at(4).Data<std::string>(), "s");
  EXPECT_THAT(std::vector<float>(at(5).Data<float>(), at(5).Data<float>() + 4), ElementsAre(0, 0, 9, 0));
  indices->set_int64_data(1, 2);
  EXPECT_THAT(FailureOf(Import(m)), HasSubstr("sparse coordinate 2"));
  sparse->set_dims(0, int64_t{1} << 40);
  FailureOf(Import(m), Code::kResourceLimit);
}

TEST(ImportOnnx, SequencesAndOptionalsAsInputs) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  auto* v = g->add_input();
  v->set_name("s");
  v->mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  AddNode(g, "Identity", {"s"}, {"y"});
  AddOutput(g, "y");
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_TRUE(r->value(r->inputs()[0]).is_sequence);
  v->mutable_type()->mutable_map_type()->set_key_type(7);
  FailureOf(Import(m), Code::kUnsupported);
}

// G09: "" is an absent input, wherever it stands.
TEST(FieldCase, G09OptionalInputsGivenAsEmptyNames) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"2"});
  AddInit(g, "max", {}, {0.5F});
  AddNode(g, "Clip", {"x", "", "max"}, {"a"});
  AddNode(g, "Clip", {"a", "", ""}, {"y"});
  AddOutput(g, "y");
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->node(0).inputs.size(), 3U);
  EXPECT_EQ(r->node(0).inputs[1], ir::kNone);
  EXPECT_EQ(r->node(1).inputs.size(), 1U);
  EXPECT_THAT(RunFloats(*r, {{"x", Tensor::FromVector<float>(Shape{2}, {-3, 3})}}), ElementsAre(-3, 0.5F));
}

TEST(FieldCase, G09SplitAndResizeWithAbsentInputs) {
  onnx::ModelProto m = NewModel(13);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"1", "1", "2", "4"});
  SetAttr(AddNode(g, "Split", {"x", ""}, {"a", "b"}), "axis", int64_t{3});
  AddInit(g, "roi", {0}, {});
  AddInit(g, "scales", {0}, {});
  AddInts(g, "sizes", {1, 1, 4, 4});
  AddNode(g, "Resize", {"a", "roi", "scales", "sizes"}, {"c"});
  AddNode(g, "Resize", {"b", "", "", "sizes"}, {"d"});
  AddOutput(g, "c");
  AddOutput(g, "d");
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  for (ir::NodeId n : {1, 2}) {
    ASSERT_EQ(r->node(n).inputs.size(), 4U);
    EXPECT_EQ(r->node(n).inputs[1], ir::kNone);
    EXPECT_EQ(r->node(n).inputs[2], ir::kNone);
  }
  EXPECT_EQ(r->node(0).attrs.Int("num_outputs", 0), 2);
}

// G10: weights listed as inputs too are constants, with one line about all of them.
TEST(FieldCase, G10InitializersAlsoListedAsInputs) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"2"});
  AddInput(g, "w", DType::kF32, {"2"});
  AddInput(g, "b", DType::kF32, {"2"});
  AddInit(g, "w", {2}, {2, 3});
  AddInit(g, "b", {2}, {10, 20});
  AddNode(g, "Mul", {"x", "w"}, {"p"});
  AddNode(g, "Add", {"p", "b"}, {"y"});
  AddOutput(g, "y");
  ImportReport report;
  auto r = Import(m, &report);
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_EQ(r->inputs().size(), 1U);
  EXPECT_EQ(report.notes.size(), 1U);
  EXPECT_THAT(RunFloats(*r, {{"x", Tensor::FromVector<float>(Shape{2}, {1, 1})}}), ElementsAre(12, 23));

  ImportOptions keep;
  keep.keep_initializer_inputs = true;
  r = Import(m, &report, keep);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->inputs().size(), 3U);
  EXPECT_EQ(report.input_defaults.at("w").Data<float>()[1], 3);
  EXPECT_EQ(report.notes.size(), 1U);
}

onnx::TypeProto::Map* SetMap(onnx::TypeProto* type, DType key, DType value) {
  auto* map = type->mutable_map_type();
  map->set_key_type(static_cast<int>(key));
  map->mutable_value_type()->mutable_tensor_type()->set_elem_type(static_cast<int>(value));
  return map;
}

onnx::ModelProto ZipMapModel() {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"n", "2"});
  onnx::NodeProto* zip = AddNode(g, "ZipMap", {"x"}, {"y"});
  zip->set_domain("ai.onnx.ml");
  auto* labels = AddAttr(zip, "classlabels_strings", onnx::AttributeProto::STRINGS);
  labels->add_strings("a");
  labels->add_strings("say \"b\"");
  AddOutput(g, "y");
  SetMap(g->mutable_output(0)->mutable_type()->mutable_sequence_type()->mutable_elem_type(), DType::kString, DType::kF32);
  return m;
}

TEST(ImportOnnx, ZipMapAtAnOutputIsTheTensor) {
  onnx::ModelProto m = ZipMapModel();
  ImportReport report;
  auto r = Import(m, &report);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->value(r->outputs()[0]).dtype, DType::kF32);
  EXPECT_FALSE(r->value(r->outputs()[0]).is_sequence);
  EXPECT_EQ(r->metadata.at("class_labels.y"), R"(["a","say \"b\""])");
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("output 'y' is the tensor [rows, classes]")));
  AddNode(m.mutable_graph(), "SequenceLength", {"y"}, {"z"});
  AddOutput(m.mutable_graph(), "z");
  EXPECT_THAT(FailureOf(Import(m), Code::kUnsupported), HasSubstr("options={'zipmap': False}"));
}

TEST(ImportOnnx, MapInputsAreKeysAndValues) {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  g->add_input()->set_name("m");
  SetMap(g->mutable_input(0)->mutable_type(), DType::kString, DType::kF32);
  onnx::NodeProto* node = AddNode(g, "DictVectorizer", {"m"}, {"y"});
  node->set_domain("ai.onnx.ml");
  AddAttr(node, "string_vocabulary", onnx::AttributeProto::STRINGS)->add_strings("a");
  AddOutput(g, "y");
  auto r = Import(m);
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_EQ(r->inputs().size(), 2u);
  EXPECT_EQ(r->value(r->inputs()[0]).name, "m.keys");
  EXPECT_EQ(r->value(r->inputs()[0]).dtype, DType::kString);
  EXPECT_EQ(r->value(r->inputs()[1]).name, "m.values");
  EXPECT_EQ(r->value(r->outputs()[0]).shape.ToString(), "[1,1]");
  AddNode(g, "Identity", {"m"}, {"z"});
  AddOutput(g, "z");
  EXPECT_THAT(FailureOf(Import(m), Code::kUnsupported), HasSubstr("reads the map 'm'"));
}

}  // namespace
}  // namespace tenon::import
