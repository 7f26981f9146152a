#include "import/onnx/node_order.h"

#include <onnx/onnx_pb.h>

#include <functional>
#include <queue>
#include <unordered_map>

namespace tenon::import::onnx_format {

using Names = std::unordered_set<std::string_view>;

std::string DescribeProto(const onnx::NodeProto& node) {
  std::string name = node.name();
  if (name.empty()) name = node.output_size() > 0 ? node.output(0) : "";
  return fmt::format("node '{}' ({})", name, node.op_type());
}

namespace {

void CollectFreeNames(const onnx::GraphProto& graph, Names* out);

// Names that a node reads, those its bodies take from outside among them. Gradient looks at the graph behind a name.
void CollectUses(const onnx::NodeProto& node, Names* out) {
  const bool names = node.op_type() == "Gradient" && node.domain() == "ai.onnx.preview.training";
  for (const std::string& name : node.input()) {
    if (!name.empty()) out->insert(name);
  }
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.has_g()) CollectFreeNames(a.g(), out);
    if (!names) continue;
    if (!a.s().empty()) out->insert(a.s());
    for (const std::string& name : a.strings()) out->insert(name);
  }
}

void CollectFreeNames(const onnx::GraphProto& graph, Names* out) {
  Names local;
  for (const auto& v : graph.input()) local.insert(v.name());
  for (const auto& t : graph.initializer()) local.insert(t.name());
  for (const auto& t : graph.sparse_initializer()) local.insert(t.values().name());
  for (const auto& n : graph.node()) local.insert(n.output().begin(), n.output().end());
  Names uses;
  for (const auto& n : graph.node()) CollectUses(n, &uses);
  for (const auto& v : graph.output()) uses.insert(v.name());
  for (std::string_view name : uses) {
    if (local.find(name) == local.end()) out->insert(name);
  }
}

struct Links {
  std::vector<int> waiting;
  std::vector<std::vector<int>> readers;
  bool sorted = true;
};

}  // namespace

Result<NodeOrder> OrderNodes(std::vector<onnx::NodeProto*> nodes) {
  const int n = static_cast<int>(nodes.size());
  std::unordered_map<std::string_view, int> producer;
  for (int i = 0; i < n; ++i) {
    for (const std::string& name : nodes[static_cast<size_t>(i)]->output()) {
      if (name.empty()) continue;
      auto [it, fresh] = producer.emplace(name, i);
      if (!fresh) {
        return BadInput("value '{}' is produced twice, by {} and {}", name,
                        DescribeProto(*nodes[static_cast<size_t>(it->second)]), DescribeProto(*nodes[static_cast<size_t>(i)]));
      }
    }
  }
  NodeOrder order;
  Links links;
  links.waiting.assign(nodes.size(), 0);
  links.readers.resize(nodes.size());
  for (int i = 0; i < n; ++i) {
    Names uses;
    CollectUses(*nodes[static_cast<size_t>(i)], &uses);
    for (std::string_view name : uses) {
      order.used.insert(name);
      auto it = producer.find(name);
      if (it == producer.end()) continue;
      if (it->second >= i) links.sorted = false;
      ++links.waiting[static_cast<size_t>(i)];
      links.readers[static_cast<size_t>(it->second)].push_back(i);
    }
  }
  if (links.sorted) {
    order.nodes = std::move(nodes);
    return order;
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < n; ++i) {
    if (links.waiting[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.nodes.push_back(nodes[static_cast<size_t>(i)]);
    for (int r : links.readers[static_cast<size_t>(i)]) {
      if (--links.waiting[static_cast<size_t>(r)] == 0) ready.push(r);
    }
  }
  if (order.nodes.size() == nodes.size()) return order;
  for (int i = 0; i < n; ++i) {
    if (links.waiting[static_cast<size_t>(i)] > 0) {
      return BadInput("the graph has a cycle through {}", DescribeProto(*nodes[static_cast<size_t>(i)]));
    }
  }
  return Internal("nodes cannot be ordered");
}

}  // namespace tenon::import::onnx_format
