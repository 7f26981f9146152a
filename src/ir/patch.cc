#include "ir/patch.h"

namespace tenon::ir {

ValueId Patch::Constant(const std::string& name_hint, Tensor tensor) {
  return graph_.AddConstant(name_hint, std::move(tensor));
}

ValueId Patch::Node(std::string op, std::vector<ValueId> inputs, Attrs attrs, DType dtype, SymShape shape,
                    const std::string& name_hint) {
  return NodeN(std::move(op), std::move(inputs), std::move(attrs), {{dtype, std::move(shape)}}, name_hint)[0];
}

std::vector<ValueId> Patch::NodeN(std::string op, std::vector<ValueId> inputs, Attrs attrs,
                                  const std::vector<std::pair<DType, SymShape>>& outputs, const std::string& name_hint) {
  ir::Node node;
  node.op = std::move(op);
  node.name = name_hint;
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
  // A name that no value of the source has, lest one be taken for the other; Replace gives the right one.
  const std::string value_name = fmt::format("{}:{}", name_hint, node.op);
  for (const auto& [dtype, shape] : outputs) node.outputs.push_back(graph_.AddValue(value_name, dtype, shape));
  std::vector<ValueId> ids = node.outputs;
  graph_.AddNode(std::move(node));
  return ids;
}

void Patch::Replace(ValueId old_value, ValueId new_value) {
  if (old_value == new_value) return;
  graph_.ReplaceNodeUses(old_value, new_value);
  if (!graph_.IsOutput(old_value)) {
    // The new value is what the source calls `old_value`; its own name may be that of something a fusion has taken in.
    const bool fixed = graph_.IsInput(new_value) || graph_.IsOutput(new_value) || graph_.IsConstant(new_value);
    if (fixed || graph_.value(new_value).producer == kNone) return;
    const std::string name = graph_.value(old_value).name;
    graph_.Rename(old_value, name + "_replaced");
    graph_.Rename(new_value, name);
    return;
  }
  // Keep the output's name: move it to the new value where that one is free to take it.
  ValueId replacement = new_value;
  const bool taken = graph_.IsInput(new_value) || graph_.IsOutput(new_value) || graph_.IsConstant(new_value);
  if (taken) {
    const Value& v = graph_.value(new_value);
    replacement = Node("Identity", {new_value}, {}, v.dtype, v.shape, v.name);
    graph_.value(replacement).is_sequence = graph_.value(new_value).is_sequence;
  }
  const std::string name = graph_.value(old_value).name;
  graph_.Rename(old_value, name + "_replaced");
  graph_.Rename(replacement, name);
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    if (graph_.outputs()[i] == old_value) graph_.SetOutput(i, replacement);
  }
}

int Patch::RemoveDead() {
  int removed = 0;
  std::vector<NodeId> work;
  const auto unused = [&](NodeId id) {
    for (ValueId v : graph_.node(id).outputs) {
      if (v != kNone && graph_.UseCount(v) > 0) return false;
    }
    return true;
  };
  for (size_t i = graph_.num_node_slots(); i-- > 0;) work.push_back(static_cast<NodeId>(i));
  while (!work.empty()) {
    const NodeId id = work.back();
    work.pop_back();
    if (graph_.node(id).dead || !unused(id)) continue;
    std::vector<NodeId> producers;
    for (ValueId v : graph_.node(id).inputs) {
      if (v != kNone && graph_.value(v).producer != kNone) producers.push_back(graph_.value(v).producer);
    }
    graph_.RemoveNode(id);
    ++removed;
    work.insert(work.end(), producers.begin(), producers.end());
  }
  for (size_t i = 0; i < graph_.num_value_slots(); ++i) {
    const auto id = static_cast<ValueId>(i);
    const Value& v = graph_.value(id);
    if (!v.dead && v.producer == kNone && !graph_.IsInput(id) && graph_.UseCount(id) == 0) graph_.RemoveValue(id);
  }
  return removed;
}

}  // namespace tenon::ir
