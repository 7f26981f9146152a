// Gradient: what is walked, cut, refused; the rules themselves are held against central differences by
// tests/conformance/test_gradient.py.
#include "import/onnx/test_model.h"

namespace tenon::import {

namespace {

struct Model {
  onnx::ModelProto proto = NewModel(21);
  onnx::GraphProto* g = proto.mutable_graph();

  Model() {
    auto* import = proto.add_opset_import();
    import->set_domain("ai.onnx.preview.training");
    import->set_version(1);
  }
  void Gradient(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                const std::vector<std::string>& xs, const std::vector<std::string>& zs, const char* y) {
    onnx::NodeProto* n = AddNode(g, "Gradient", inputs, outputs, "gradient of " + std::string(y));
    n->set_domain("ai.onnx.preview.training");
    auto* a = AddAttr(n, "xs", onnx::AttributeProto::STRINGS);
    for (const auto& x : xs) a->add_strings(x);
    if (!zs.empty()) {
      a = AddAttr(n, "zs", onnx::AttributeProto::STRINGS);
      for (const auto& z : zs) a->add_strings(z);
    }
    SetAttr(n, "y", y);
    for (const auto& o : outputs) {
      if (!o.empty()) AddOutput(g, o);
    }
  }
  void In(const std::string& name, const std::vector<std::string>& dims) { AddInput(g, name, DType::kF32, dims); }
};

Tensor Floats(Shape shape, const std::vector<float>& v) {
  return Tensor::FromVector<float>(shape, v);
}

// The result named `name`, of a model that must import.
std::vector<float> ValueOf(const Model& m, const std::map<std::string, Tensor>& inputs, const std::string& name) {
  auto graph = Import(m.proto);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return {};
  const auto outputs = RunGraph(*graph, inputs);
  auto it = outputs.find(name);
  EXPECT_NE(it, outputs.end());
  if (it == outputs.end()) return {};
  return {it->second.Data<float>(), it->second.Data<float>() + it->second.shape().num_elements()};
}

using Values = std::vector<float>;

TEST(Gradient, OfAProductReadTwice) {
  Model m;
  m.In("x", {"2"});
  AddNode(m.g, "Mul", {"x", "x"}, {"square"});
  AddNode(m.g, "Add", {"square", "x"}, {"y"});
  m.Gradient({"x"}, {"dx"}, {"x"}, {}, "y");
  EXPECT_EQ(ValueOf(m, {{"x", Floats({2}, {3, -1})}}, "dx"), (Values{7, -1}));
}

TEST(Gradient, StopsAtIntermediatesNamed) {
  Model m;
  m.In("x", {"2"});
  AddNode(m.g, "Exp", {"x"}, {"h"});
  AddNode(m.g, "Mul", {"h", "h"}, {"y"});
  m.Gradient({"h"}, {"dh"}, {"h"}, {}, "y");
  EXPECT_EQ(ValueOf(m, {{"x", Floats({2}, {0, 0})}}, "dh"), (Values{2, 2}));
}

TEST(Gradient, ZsAreHeldFixed) {
  Model m;
  m.In("x", {"1"});
  AddNode(m.g, "Mul", {"x", "x"}, {"z"});
  AddNode(m.g, "Mul", {"x", "z"}, {"y"});
  m.Gradient({"x", "z"}, {"dx"}, {"x"}, {"z"}, "y");
  EXPECT_EQ(ValueOf(m, {{"x", Floats({1}, {2})}}, "dx"), (Values{4}));
}

TEST(Gradient, AtOtherValuesThanTheGraphs) {
  Model m;
  m.In("x", {"2"});
  m.In("elsewhere", {"2"});
  AddNode(m.g, "Mul", {"x", "x"}, {"y"});
  m.Gradient({"elsewhere"}, {"dx"}, {"x"}, {}, "y");
  EXPECT_EQ(ValueOf(m, {{"x", Floats({2}, {3, -1})}, {"elsewhere", Floats({2}, {10, 20})}}, "dx"), (Values{20, 40}));
}

TEST(Gradient, OfAGradient) {
  Model m;
  m.In("x", {"2"});
  AddInit(m.g, "three", {}, {3});
  AddNode(m.g, "Pow", {"x", "three"}, {"y"});
  // In the wrong order in the file: the first needs the second's result.
  m.Gradient({"x"}, {"d2x"}, {"x"}, {}, "dx");
  m.Gradient({"x"}, {"dx"}, {"x"}, {}, "y");
  EXPECT_EQ(ValueOf(m, {{"x", Floats({2}, {2, -1})}}, "d2x"), (Values{12, -6}));
}

TEST(Gradient, WithoutDependenceIsZero) {
  Model m;
  m.In("x", {"2"});
  m.In("w", {"2"});
  AddNode(m.g, "Exp", {"w"}, {"y"});
  m.Gradient({"x", "w"}, {"dx", ""}, {"x", "w"}, {}, "y");
  EXPECT_EQ(ValueOf(m, {{"x", Floats({2}, {1, 2})}, {"w", Floats({2}, {1, 2})}}, "dx"), (Values{0, 0}));
}

TEST(Gradient, OfBroadcastSymbolsIsSummedAtRunTime) {
  Model m;
  m.In("x", {"n", "3"});
  m.In("w", {"k", "1"});
  AddNode(m.g, "Mul", {"x", "w"}, {"y"});
  m.Gradient({"x", "w"}, {"dx", "dw"}, {"x", "w"}, {}, "y");
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(ValueOf(m, {{"x", x}, {"w", Floats({1, 1}, {2})}}, "dw"), (Values{21}));
  EXPECT_EQ(ValueOf(m, {{"x", x}, {"w", Floats({2, 1}, {2, 3})}}, "dw"), (Values{6, 15}));
  EXPECT_EQ(ValueOf(m, {{"x", Floats({1, 3}, {1, 2, 3})}, {"w", Floats({2, 1}, {2, 3})}}, "dx"), (Values{5, 5, 5}));
}

TEST(Gradient, RefusesWhatHasNoRule) {
  Model m;
  m.In("x", {"2", "2"});
  AddNode(m.g, "Det", {"x"}, {"y"}, "the determinant");
  m.Gradient({"x"}, {"dx"}, {"x"}, {}, "y");
  const std::string why = FailureOf(Import(m.proto), Code::kUnsupported);
  EXPECT_NE(why.find("'the determinant' (Det) has no rule of differentiation"), std::string::npos) << why;
}

TEST(Gradient, OperatorsBesideTheWayNeedNoRule) {
  Model m;
  m.In("x", {"2", "2"});
  m.In("w", {"2", "2"});
  AddNode(m.g, "Det", {"w"}, {"det"});
  AddNode(m.g, "Mul", {"x", "det"}, {"y"});
  m.Gradient({"x"}, {"dx"}, {"x"}, {}, "y");
  const Tensor two = Floats({2, 2}, {2, 0, 0, 2});
  EXPECT_EQ(ValueOf(m, {{"x", two}, {"w", two}}, "dx"), (Values{4, 4, 4, 4}));
}

TEST(Gradient, RefusesDamagedForms) {
  const auto fails = [](const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        const std::vector<std::string>& xs, const char* y) {
    Model m;
    m.In("x", {"2"});
    AddNode(m.g, "Exp", {"x"}, {"y"});
    m.Gradient(inputs, outputs, xs, {}, y);
    return FailureOf(Import(m.proto));
  };
  EXPECT_NE(fails({"x"}, {"dx"}, {"x"}, "nowhere").find("'nowhere'"), std::string::npos);
  EXPECT_NE(fails({"x"}, {"dx"}, {"nothing"}, "y").find("'nothing'"), std::string::npos);
  EXPECT_NE(fails({"x"}, {"dx"}, {"x", "x"}, "y").find("xs and zs name 2"), std::string::npos);
  EXPECT_NE(fails({"x"}, {"dx", "dz"}, {"x"}, "y").find("2 outputs"), std::string::npos);
  EXPECT_NE(fails({"x"}, {"dx"}, {}, "y").find("'xs' and 'y'"), std::string::npos);
  EXPECT_NE(fails({"x"}, {"dx"}, {"x"}, "dx").find("cycle"), std::string::npos);
}

// Each gradient is some times larger than what it is taken of.
TEST(Gradient, OfGradientsWithoutEndHitALimit) {
  Model m;
  m.In("x", {"2"});
  AddNode(m.g, "Tan", {"x"}, {"d0"});
  for (int i = 0; i < 24; ++i) {
    m.Gradient({"x"}, {"d" + std::to_string(i + 1)}, {"x"}, {}, ("d" + std::to_string(i)).c_str());
  }
  ImportOptions options;
  options.max_nodes = 20000;
  const std::string why = FailureOf(Import(m.proto, nullptr, options), Code::kResourceLimit);
  EXPECT_NE(why.find("20000 nodes"), std::string::npos) << why;
}

}  // namespace

}  // namespace tenon::import
