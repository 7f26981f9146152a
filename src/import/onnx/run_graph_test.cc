// RunGraph: what the tests of the importer use to see values.
#include "import/onnx/test_model.h"

namespace tenon::import {

std::map<std::string, Tensor> RunGraph(const ir::Graph& graph, const std::map<std::string, Tensor>& inputs) {
  hw::Team team(1);
  std::map<ir::ValueId, Tensor> values;
  for (ir::ValueId id : graph.inputs()) {
    auto it = inputs.find(graph.value(id).name);
    EXPECT_NE(it, inputs.end()) << graph.value(id).name;
    if (it != inputs.end()) values[id] = it->second;
  }
  const auto order = graph.TopologicalOrder();
  EXPECT_TRUE(order.ok());
  for (ir::NodeId n : *order) {
    const ir::Node& node = graph.node(n);
    std::vector<View> in;
    for (ir::ValueId v : node.inputs) {
      in.push_back(v == ir::kNone ? View{} : graph.IsConstant(v) ? graph.value(v).constant.view() : values[v].view());
    }
    auto out = kernels::Evaluate(node.op, node.attrs, in, static_cast<int>(node.outputs.size()), 0, team);
    EXPECT_TRUE(out.ok()) << node.name << " (" << node.op << "): " << out.status().message();
    if (!out.ok()) return {};
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != ir::kNone) values[node.outputs[i]] = (*out)[i];
    }
  }
  std::map<std::string, Tensor> outputs;
  for (ir::ValueId id : graph.outputs()) {
    outputs[graph.value(id).name] = graph.IsConstant(id) ? graph.value(id).constant : values[id];
  }
  return outputs;
}

std::vector<float> RunFloats(const ir::Graph& graph, const std::map<std::string, Tensor>& inputs) {
  const auto outputs = RunGraph(graph, inputs);
  EXPECT_EQ(outputs.size(), 1U);
  if (outputs.size() != 1 || outputs.begin()->second.dtype() != DType::kF32) return {};
  const Tensor& t = outputs.begin()->second;
  return {t.Data<float>(), t.Data<float>() + t.shape().num_elements()};
}

}  // namespace tenon::import
