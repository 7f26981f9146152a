#include "passes/inline_body.h"

namespace tenon::passes {

void InlineBody(Rewriter& r, NodeId id, size_t index, const std::vector<ValueId>& arguments) {
  ir::Graph& g = r.graph();
  ir::Graph& body = *g.node(id).bodies[index];
  CHECK(arguments.size() >= body.inputs().size());
  std::vector<ValueId> mapped(body.num_value_slots(), kNone);
  for (size_t i = 0; i < body.inputs().size(); ++i) mapped[static_cast<size_t>(body.inputs()[i])] = arguments[i];
  for (size_t i = 0; i < body.num_value_slots(); ++i) {
    const ir::Value& v = body.value(static_cast<ValueId>(i));
    if (v.dead || mapped[i] != kNone || body.IsInput(static_cast<ValueId>(i))) continue;
    if (v.constant.defined()) {
      mapped[i] = g.AddConstant(v.name, v.constant);
      continue;
    }
    mapped[i] = g.AddValue(v.name, v.dtype, v.shape);
    g.value(mapped[i]).is_sequence = v.is_sequence;
    // Symbols that were born in the body may collide with names out here: inference finds the extents anew.
    for (Dim& d : g.value(mapped[i]).shape.dims()) {
      if (!d.is_const()) d = Dim::Unknown();
    }
  }
  for (size_t i = 0; i < body.num_node_slots(); ++i) {
    ir::Node& n = body.node(static_cast<NodeId>(i));
    if (n.dead) continue;
    ir::Node copy;
    copy.op = n.op;
    copy.name = n.name;
    copy.attrs = n.attrs;
    for (ValueId v : n.inputs) copy.inputs.push_back(v == kNone ? kNone : mapped[static_cast<size_t>(v)]);
    for (ValueId v : n.outputs) copy.outputs.push_back(v == kNone ? kNone : mapped[static_cast<size_t>(v)]);
    copy.bodies = std::move(n.bodies);
    g.AddNode(std::move(copy));
  }
  const std::vector<ValueId> results = body.outputs();
  const std::vector<ValueId> outputs = g.node(id).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] != kNone) r.patch().Replace(outputs[i], mapped[static_cast<size_t>(results[i])]);
  }
  r.Changed();
  r.EraseIfUnused(id);
}

}  // namespace tenon::passes
