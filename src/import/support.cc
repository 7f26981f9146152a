// What an imported graph needs that Tenon does not have.
#include <algorithm>
#include <set>

#include "import/import.h"
#include "ops/op.h"

namespace tenon::import {

namespace {

void Walk(const ir::Graph& graph, std::vector<NodeSupport>* nodes) {
  for (size_t i = 0; i < graph.num_node_slots(); ++i) {
    const ir::Node& node = graph.node(static_cast<ir::NodeId>(i));
    if (node.dead) continue;
    const size_t dot = node.op.rfind('.');
    const bool plain = dot == std::string::npos;
    nodes->push_back({node.name, plain ? node.op : node.op.substr(dot + 1), plain ? "ai.onnx" : node.op.substr(0, dot),
                      ops::IsSupported(node.op)});
    for (const auto& body : node.bodies) Walk(*body, nodes);
  }
}

}  // namespace

std::vector<NodeSupport> Support(const ir::Graph& graph) {
  std::vector<NodeSupport> nodes;
  Walk(graph, &nodes);
  return nodes;
}

Status CheckSupported(const ir::Graph& graph) {
  std::vector<NodeSupport> missing = Support(graph);
  std::erase_if(missing, [](const NodeSupport& n) { return n.supported; });
  if (missing.empty()) return Status::Ok();
  std::set<std::string> ops;
  for (const NodeSupport& n : missing) ops.insert(n.domain == "ai.onnx" ? n.op : n.domain + "." + n.op);
  std::string all;
  for (const std::string& op : ops) all += (all.empty() ? "" : ", ") + op;
  auto opsets = graph.metadata.find("onnx.opset_import");
  const NodeSupport& first = missing.front();
  return Unsupported("node '{}' ({}, domain {}, opsets {}): operator is not supported; {} node(s) in all, of: {}", first.name,
                     first.op, first.domain, opsets == graph.metadata.end() ? "unknown" : opsets->second, missing.size(), all);
}

}  // namespace tenon::import
