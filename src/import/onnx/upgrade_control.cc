// Control flow in old forms. Bodies are closed already: captures are trailing inputs.
#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format {

namespace {

// A value of `graph` that stands for value `v` of another graph.
ir::ValueId StandIn(ir::Graph* graph, const ir::Value& v) {
  const ir::ValueId id = graph->AddInput(v.name, v.dtype, SymShape());
  graph->value(id).is_sequence = v.is_sequence;
  graph->value(id).is_optional = v.is_optional;
  return id;
}

}  // namespace

// Scan-8 has a batch axis before the scanned one: a scan over the batch whose body is the scan over the sequence.
Status ScanTo9(Builder* b, Pending* p) {
  ir::Node& node = p->node;
  const int64_t captures = node.attrs.Int("captures", 0);
  const int64_t own = static_cast<int64_t>(node.inputs.size()) - captures;
  const int64_t scanned = node.attrs.Int("num_scan_inputs", 0);
  if (scanned < 1 || scanned > own) return BadInput("num_scan_inputs is {} of {} inputs", scanned, own);
  ir::Node inner;
  inner.op = "Scan";
  inner.name = node.name;
  inner.attrs.Set("captures", captures);
  inner.attrs.Set("num_scan_inputs", scanned);
  if (node.attrs.Has("directions")) inner.attrs.Set("scan_input_directions", node.attrs.Ints("directions"));
  inner.bodies = std::move(node.bodies);
  auto batch = std::make_unique<ir::Graph>();
  batch->name = inner.bodies[0]->name + "/batch";
  for (ir::ValueId v : node.inputs) inner.inputs.push_back(StandIn(batch.get(), b->value(v)));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    inner.outputs.push_back(batch->AddValue("", DType::kUndefined, SymShape()));
    batch->AddOutput(inner.outputs.back());
  }
  batch->AddNode(std::move(inner));
  node.bodies.clear();
  node.bodies.push_back(std::move(batch));
  node.attrs = Attrs();
  node.attrs.Set("captures", captures);
  node.attrs.Set("num_scan_inputs", own);
  return Status::Ok();
}

Status IdentityOfOptional(Builder* b, Pending* p) {
  if (p->Has(0) && p->node.outputs[0] != ir::kNone) {
    b->graph().value(p->node.outputs[0]).is_optional = b->value(p->In(0)).is_optional;
  }
  return Status::Ok();
}

// An optional of a sequence is the same value as the sequence; only an optional tensor differs from its element.
Status OptionalToCanonical(Builder* b, Pending* p) {
  const bool sequence = p->Has(0) ? b->value(p->In(0)).is_sequence : p->node.attrs.Has("of_sequence");
  p->node.attrs.Erase("of_sequence");
  if (p->node.outputs[0] != ir::kNone) b->graph().value(p->node.outputs[0]).is_optional = !sequence;
  return Status::Ok();
}

// The operator alone cannot tell an optional tensor from a sequence of one: the type of its output says it.
Status OptionalGetElementToCanonical(Builder* b, Pending* p) {
  if (!p->Has(0) || p->node.outputs[0] == ir::kNone) return Status::Ok();
  const ir::Value& in = b->value(p->In(0));
  b->graph().value(p->node.outputs[0]).is_sequence = in.is_sequence && !in.is_optional;
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
