// CheckSupported: what an imported graph needs that Tenon does not have.
#include <set>

#include "import/import.h"
#include "ops/op.h"

namespace tenon::import {

namespace {

struct Missing {
  std::string first;  // where and what
  std::set<std::string> ops;
  int nodes = 0;
};

void Walk(const ir::Graph& graph, const std::string& opsets, Missing* missing) {
  for (size_t i = 0; i < graph.num_node_slots(); ++i) {
    const ir::Node& node = graph.node(static_cast<ir::NodeId>(i));
    if (node.dead) continue;
    if (!ops::IsSupported(node.op)) {
      ++missing->nodes;
      missing->ops.insert(node.op);
      const size_t dot = node.op.rfind('.');
      if (missing->first.empty()) {
        missing->first = fmt::format("node '{}' ({}, domain {}, opsets {})", node.name,
                                     dot == std::string::npos ? node.op : node.op.substr(dot + 1),
                                     dot == std::string::npos ? "ai.onnx" : node.op.substr(0, dot), opsets);
      }
    }
    for (const auto& body : node.bodies) Walk(*body, opsets, missing);
  }
}

}  // namespace

Status CheckSupported(const ir::Graph& graph) {
  auto it = graph.metadata.find("onnx.opset_import");
  Missing missing;
  Walk(graph, it == graph.metadata.end() ? "unknown" : it->second, &missing);
  if (missing.nodes == 0) return Status::Ok();
  std::string all;
  for (const std::string& op : missing.ops) all += (all.empty() ? "" : ", ") + op;
  return Unsupported("{}: operator is not supported; {} node(s) in all, of: {}", missing.first, missing.nodes, all);
}

}  // namespace tenon::import
