#include "ir/graph.h"

#include <algorithm>
#include <queue>

namespace tenon::ir {

Graph Graph::Clone() const {
  Graph copy;
  copy.name = name;
  copy.metadata = metadata;
  copy.values_ = values_;
  for (const Node& n : nodes_) {
    Node& c = copy.nodes_.emplace_back(Node{n.op, n.name, n.attrs, n.inputs, n.outputs, {}, n.dead});
    for (const auto& body : n.bodies) c.bodies.push_back(std::make_unique<Graph>(body->Clone()));
  }
  copy.inputs_ = inputs_;
  copy.outputs_ = outputs_;
  copy.by_name_ = by_name_;
  copy.next_name_ = next_name_;
  return copy;
}

bool Graph::IsInput(ValueId id) const {
  return std::find(inputs_.begin(), inputs_.end(), id) != inputs_.end();
}
bool Graph::IsOutput(ValueId id) const {
  return std::find(outputs_.begin(), outputs_.end(), id) != outputs_.end();
}

size_t Graph::UseCount(ValueId id) const {
  return value(id).consumers.size() + static_cast<size_t>(std::count(outputs_.begin(), outputs_.end(), id));
}

ValueId Graph::FindValue(const std::string& name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? kNone : it->second;
}

Result<std::vector<NodeId>> Graph::TopologicalOrder() const {
  std::vector<int> waiting(nodes_.size(), 0);
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  size_t live = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].dead) continue;
    ++live;
    for (ValueId v : nodes_[i].inputs) {
      if (v != kNone && value(v).producer != kNone) ++waiting[i];
    }
    if (waiting[i] == 0) ready.push(static_cast<NodeId>(i));
  }
  std::vector<NodeId> order;
  order.reserve(live);
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    order.push_back(id);
    for (ValueId v : node(id).outputs) {
      if (v == kNone) continue;
      for (NodeId c : value(v).consumers) {
        if (--waiting[static_cast<size_t>(c)] == 0) ready.push(c);
      }
    }
  }
  if (order.size() != live) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i].dead && waiting[i] > 0) {
        return BadInput("graph '{}' has a cycle through node '{}' ({})", name, nodes_[i].name, nodes_[i].op);
      }
    }
  }
  return order;
}

std::string Graph::UniqueName(std::string name) {
  if (!name.empty() && by_name_.find(name) == by_name_.end()) return name;
  std::string candidate;
  do {
    candidate = fmt::format("{}_{}", name.empty() ? "v" : name, next_name_++);
  } while (by_name_.find(candidate) != by_name_.end());
  return candidate;
}

ValueId Graph::AddValue(std::string name, DType dtype, SymShape shape) {
  const auto id = static_cast<ValueId>(values_.size());
  Value v;
  v.name = UniqueName(std::move(name));
  v.dtype = dtype;
  v.shape = std::move(shape);
  by_name_[v.name] = id;
  values_.push_back(std::move(v));
  return id;
}

ValueId Graph::AddInput(std::string name, DType dtype, SymShape shape) {
  const ValueId id = AddValue(std::move(name), dtype, std::move(shape));
  inputs_.push_back(id);
  return id;
}

ValueId Graph::AddConstant(std::string name, Tensor tensor) {
  const ValueId id = AddValue(std::move(name), tensor.dtype(), SymShape(tensor.shape()));
  value(id).constant = std::move(tensor);
  return id;
}

void Graph::RemoveInput(size_t index) {
  inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(index));
}

NodeId Graph::AddNode(Node node) {
  const auto id = static_cast<NodeId>(nodes_.size());
  for (ValueId v : node.inputs) {
    if (v != kNone) value(v).consumers.push_back(id);
  }
  for (ValueId v : node.outputs) {
    if (v == kNone) continue;
    CHECK(value(v).producer == kNone);
    value(v).producer = id;
  }
  nodes_.push_back(std::move(node));
  return id;
}

namespace {
void EraseOne(std::vector<NodeId>* list, NodeId id) {
  auto it = std::find(list->begin(), list->end(), id);
  CHECK(it != list->end());
  list->erase(it);
}
}  // namespace

void Graph::SetNodeInput(NodeId id, size_t index, ValueId v) {
  ValueId& slot = node(id).inputs[index];
  if (slot != kNone) EraseOne(&value(slot).consumers, id);
  slot = v;
  if (v != kNone) value(v).consumers.push_back(id);
}

void Graph::AppendNodeInput(NodeId id, ValueId v) {
  node(id).inputs.push_back(kNone);
  SetNodeInput(id, node(id).inputs.size() - 1, v);
}

void Graph::EraseNodeInput(NodeId id, size_t index) {
  SetNodeInput(id, index, kNone);
  auto& in = node(id).inputs;
  in.erase(in.begin() + static_cast<std::ptrdiff_t>(index));
}

void Graph::RemoveNode(NodeId id) {
  Node& n = node(id);
  for (size_t i = 0; i < n.inputs.size(); ++i) SetNodeInput(id, i, kNone);
  n.inputs.clear();
  for (ValueId v : n.outputs) {
    if (v == kNone) continue;
    CHECK(UseCount(v) == 0);
    value(v).producer = kNone;
    RemoveValue(v);
  }
  n.outputs.clear();
  n.bodies.clear();
  n.dead = true;
}

void Graph::RemoveValue(ValueId id) {
  Value& v = value(id);
  CHECK(v.producer == kNone && v.consumers.empty());
  by_name_.erase(v.name);
  v.constant = Tensor();
  v.dead = true;
}

void Graph::Rename(ValueId id, const std::string& name) {
  by_name_.erase(value(id).name);
  value(id).name = UniqueName(name);
  by_name_[value(id).name] = id;
}

void Graph::ReplaceNodeUses(ValueId from, ValueId to) {
  if (from == to) return;
  const std::vector<NodeId> users = value(from).consumers;
  for (NodeId user : users) {
    for (size_t i = 0; i < node(user).inputs.size(); ++i) {
      if (node(user).inputs[i] == from) SetNodeInput(user, i, to);
    }
  }
}

namespace {

Status VerifyNode(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  for (ValueId v : n.inputs) {
    if (v == kNone) continue;
    if (g.value(v).dead) return Internal("node '{}' ({}) reads the removed value '{}'", n.name, n.op, g.value(v).name);
    const auto& users = g.value(v).consumers;
    if (std::count(users.begin(), users.end(), id) != std::count(n.inputs.begin(), n.inputs.end(), v)) {
      return Internal("node '{}' ({}) and value '{}' disagree on their link", n.name, n.op, g.value(v).name);
    }
  }
  for (ValueId v : n.outputs) {
    if (v == kNone) continue;
    if (g.value(v).dead || g.value(v).producer != id) {
      return Internal("node '{}' ({}) does not own its output '{}'", n.name, n.op, g.value(v).name);
    }
    if (g.value(v).constant.defined()) return Internal("constant '{}' has a producer", g.value(v).name);
  }
  for (const auto& body : n.bodies) {
    TENON_RETURN_IF_ERROR(Verify(*body).Within(fmt::format("body of '{}'", n.name)));
  }
  return Status::Ok();
}

}  // namespace

Status Verify(const Graph& g) {
  for (size_t i = 0; i < g.num_node_slots(); ++i) {
    if (!g.node(static_cast<NodeId>(i)).dead) TENON_RETURN_IF_ERROR(VerifyNode(g, static_cast<NodeId>(i)));
  }
  std::map<std::string, int> names;
  for (size_t i = 0; i < g.num_value_slots(); ++i) {
    const Value& v = g.value(static_cast<ValueId>(i));
    if (!v.dead && ++names[v.name] > 1) return Internal("two values are named '{}'", v.name);
  }
  for (ValueId v : g.inputs()) {
    if (g.value(v).dead || g.value(v).producer != kNone) return Internal("graph input '{}' has a producer", g.value(v).name);
  }
  for (ValueId v : g.outputs()) {
    const Value& out = g.value(v);
    if (out.dead) return Internal("graph output '{}' was removed", out.name);
    if (out.producer == kNone && !out.constant.defined() && !g.IsInput(v)) {
      return Internal("graph output '{}' has no producer", out.name);
    }
  }
  auto order = g.TopologicalOrder();
  return order.ok() ? Status::Ok() : std::move(order).TakeStatus();
}

}  // namespace tenon::ir
