#include "compile/lower.h"

#include "ops/control_flow.h"

namespace tenon::compile {

using artifact::kAbsent;
using artifact::Program;
using artifact::Step;
using artifact::ValueIndex;

namespace {

class Lowering {
 public:
  explicit Lowering(const ir::Graph& graph) : graph_(graph), index_(graph.num_value_slots(), kAbsent) {}

  Result<Program> Run(const std::map<std::string, Tensor>& defaults) {
    program_.name = graph_.name;
    program_.metadata = graph_.metadata;
    for (ir::ValueId v : graph_.inputs()) {
      program_.inputs.push_back(IndexOf(v));
      const auto it = defaults.find(graph_.value(v).name);
      if (it != defaults.end()) program_.values.back().constant = it->second;
    }
    TENON_ASSIGN_OR_RETURN(const auto order, graph_.TopologicalOrder());
    for (ir::NodeId id : order) {
      TENON_ASSIGN_OR_RETURN(Step step, LowerNode(graph_.node(id)));
      program_.steps.push_back(std::move(step));
    }
    for (ir::ValueId v : graph_.outputs()) program_.outputs.push_back(IndexOf(v));
    return std::move(program_);
  }

 private:
  ValueIndex IndexOf(ir::ValueId v) {
    if (v == ir::kNone) return kAbsent;
    ValueIndex& index = index_[static_cast<size_t>(v)];
    if (index == kAbsent) {
      const ir::Value& value = graph_.value(v);
      index = static_cast<ValueIndex>(program_.values.size());
      program_.values.push_back({value.name, value.dtype, value.is_sequence, value.shape, value.constant});
    }
    return index;
  }

  Result<Step> LowerNode(const ir::Node& node) {
    Step step;
    step.op = node.op;
    step.name = node.name;
    step.attrs = node.attrs;
    for (ir::ValueId v : node.inputs) step.inputs.push_back(IndexOf(v));
    for (ir::ValueId v : node.outputs) step.outputs.push_back(IndexOf(v));
    for (const auto& body : node.bodies) {
      TENON_ASSIGN_OR_RETURN(Program program, Lower(*body));
      step.bodies.push_back(std::move(program));
    }
    return step;
  }

  const ir::Graph& graph_;
  Program program_;
  std::vector<ValueIndex> index_;
};

// Position of a node's captures among its inputs, and of the same captures among a body's inputs.
struct Captures {
  size_t first_in_node;
  size_t first_in_body;
};

Captures FindCaptures(const ir::Node& node) {
  const auto count = static_cast<size_t>(ops::NumCaptures(node));
  return {node.inputs.size() - count, node.bodies[0]->inputs().size() - count};
}

int SinkIntoNode(ir::Graph& graph, ir::NodeId id) {
  int removed = 0;
  const Captures captures = FindCaptures(graph.node(id));
  for (size_t i = graph.node(id).inputs.size(); i-- > captures.first_in_node;) {
    const ir::ValueId outer = graph.node(id).inputs[i];
    if (!graph.IsConstant(outer)) continue;
    const size_t position = captures.first_in_body + (i - captures.first_in_node);
    for (auto& body : graph.node(id).bodies) {
      // The body's input becomes the constant itself: same value, no longer fed.
      const ir::ValueId inner = body->inputs()[position];
      body->RemoveInput(position);
      body->value(inner).constant = graph.value(outer).constant;
      body->value(inner).dtype = graph.value(outer).dtype;
      body->value(inner).shape = graph.value(outer).shape;
    }
    graph.EraseNodeInput(id, i);
    ++removed;
  }
  if (removed > 0) {
    ir::Node& node = graph.node(id);
    node.attrs.Set("captures", ops::NumCaptures(node) - removed);
  }
  return removed;
}

}  // namespace

int SinkConstantsIntoBodies(ir::Graph& graph) {
  int removed = 0;
  for (size_t i = 0; i < graph.num_node_slots(); ++i) {
    const auto id = static_cast<ir::NodeId>(i);
    if (graph.node(id).dead || graph.node(id).bodies.empty()) continue;
    removed += SinkIntoNode(graph, id);
    for (auto& body : graph.node(id).bodies) removed += SinkConstantsIntoBodies(*body);
  }
  return removed;
}

Result<Program> Lower(const ir::Graph& graph, const std::map<std::string, Tensor>& defaults) {
  return Lowering(graph).Run(defaults);
}

}  // namespace tenon::compile
