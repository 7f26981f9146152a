// For tests: ModelProtos built in a few lines, and graphs run node by node with the reference kernels.
#ifndef TENON_IMPORT_ONNX_TEST_MODEL_H_
#define TENON_IMPORT_ONNX_TEST_MODEL_H_

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <vector>

#include "import/import.h"
#include "kernels/kernel.h"

namespace tenon::import {

inline onnx::AttributeProto* AddAttr(onnx::NodeProto* node, const std::string& name, onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(type);
  return a;
}
inline void SetAttr(onnx::NodeProto* node, const std::string& name, int64_t v) {
  AddAttr(node, name, onnx::AttributeProto::INT)->set_i(v);
}
inline void SetAttr(onnx::NodeProto* node, const std::string& name, float v) {
  AddAttr(node, name, onnx::AttributeProto::FLOAT)->set_f(v);
}
inline void SetAttr(onnx::NodeProto* node, const std::string& name, const char* v) {
  AddAttr(node, name, onnx::AttributeProto::STRING)->set_s(v);
}
inline void SetAttr(onnx::NodeProto* node, const std::string& name, const std::vector<int64_t>& v) {
  onnx::AttributeProto* a = AddAttr(node, name, onnx::AttributeProto::INTS);
  for (int64_t i : v) a->add_ints(i);
}
inline void SetAttr(onnx::NodeProto* node, const std::string& name, const std::vector<float>& v) {
  onnx::AttributeProto* a = AddAttr(node, name, onnx::AttributeProto::FLOATS);
  for (float f : v) a->add_floats(f);
}
inline onnx::GraphProto* AddGraph(onnx::NodeProto* node, const std::string& name) {
  return AddAttr(node, name, onnx::AttributeProto::GRAPH)->mutable_g();
}

template <typename GraphOrFunction>
onnx::NodeProto* AddNode(GraphOrFunction* graph, const std::string& op, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, const std::string& name = "") {
  onnx::NodeProto* n = graph->add_node();
  n->set_op_type(op);
  n->set_name(name);
  for (const auto& i : inputs) n->add_input(i);
  for (const auto& o : outputs) n->add_output(o);
  return n;
}

/// Extents: numbers, or names where they begin with a letter; "" is unknown.
inline void SetType(onnx::ValueInfoProto* v, const std::string& name, DType dtype, const std::vector<std::string>& dims) {
  v->set_name(name);
  auto* t = v->mutable_type()->mutable_tensor_type();
  t->set_elem_type(static_cast<int>(dtype));
  t->mutable_shape();
  for (const std::string& d : dims) {
    auto* dim = t->mutable_shape()->add_dim();
    if (d.empty()) continue;
    if (d[0] == '-' || (d[0] >= '0' && d[0] <= '9')) {
      dim->set_dim_value(std::stoll(d));
    } else {
      dim->set_dim_param(d);
    }
  }
}
inline void AddInput(onnx::GraphProto* g, const std::string& name, DType dtype, const std::vector<std::string>& dims) {
  SetType(g->add_input(), name, dtype, dims);
}
/// Without a type, as nothing else needs one.
inline void AddOutput(onnx::GraphProto* g, const std::string& name) {
  g->add_output()->set_name(name);
}

inline onnx::TensorProto* AddInit(onnx::GraphProto* g, const std::string& name, const std::vector<int64_t>& dims,
                                  const std::vector<float>& values) {
  onnx::TensorProto* t = g->add_initializer();
  t->set_name(name);
  t->set_data_type(1);
  for (int64_t d : dims) t->add_dims(d);
  t->set_raw_data(values.data(), values.size() * sizeof(float));
  return t;
}
inline onnx::TensorProto* AddInts(onnx::GraphProto* g, const std::string& name, const std::vector<int64_t>& values) {
  onnx::TensorProto* t = g->add_initializer();
  t->set_name(name);
  t->set_data_type(7);
  t->add_dims(static_cast<int64_t>(values.size()));
  for (int64_t v : values) t->add_int64_data(v);
  return t;
}

inline onnx::ModelProto NewModel(int64_t opset) {
  onnx::ModelProto m;
  m.set_ir_version(8);
  auto* import = m.add_opset_import();
  import->set_domain("");
  import->set_version(opset);
  m.mutable_graph()->set_name("g");
  return m;
}

inline Result<ir::Graph> Import(const onnx::ModelProto& m, ImportReport* report = nullptr, const ImportOptions& options = {}) {
  return ImportOnnxBytes(m.SerializeAsString(), "", options, report);
}

/// The message of the failure, which must have `code`; empty on success.
inline std::string FailureOf(const Result<ir::Graph>& r, Code code = Code::kBadInput) {
  EXPECT_FALSE(r.ok());
  if (r.ok()) return {};
  EXPECT_EQ(r.status().code(), code) << r.status().message();
  return r.status().message();
}

/// Runs a graph without control flow; the first failure fails the test.
std::map<std::string, Tensor> RunGraph(const ir::Graph& graph, const std::map<std::string, Tensor>& inputs);
/// The only output, as floats.
std::vector<float> RunFloats(const ir::Graph& graph, const std::map<std::string, Tensor>& inputs);

}  // namespace tenon::import

#endif  // TENON_IMPORT_ONNX_TEST_MODEL_H_
