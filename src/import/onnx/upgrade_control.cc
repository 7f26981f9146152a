// Control flow in old or derived forms. Bodies are closed already: captures are trailing inputs.
#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format {

namespace {

// A value of `graph` that stands for value `v` of another graph.
ir::ValueId StandIn(ir::Graph* graph, const ir::Value& v) {
  const ir::ValueId id = graph->AddInput(v.name, v.dtype, SymShape());
  graph->value(id).is_sequence = v.is_sequence;
  return id;
}

ir::NodeId AddNode(ir::Graph* graph, const std::string& op, std::vector<ir::ValueId> inputs, std::vector<ir::ValueId> outputs) {
  ir::Node node;
  node.op = op;
  node.name = op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return graph->AddNode(std::move(node));
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

// For each element of the first sequence: a Loop that takes elements out of the sequences and appends results to new ones.
Status SequenceMapToLoop(Builder* b, Pending* p) {
  ir::Node& node = p->node;
  const auto captures = static_cast<size_t>(node.attrs.Int("captures", 0));
  const size_t own = node.inputs.size() - captures;
  ir::Graph& body = *node.bodies[0];
  if (own == 0 || node.inputs[0] == ir::kNone || !b->value(node.inputs[0]).is_sequence) {
    return BadInput("input 0 must be a sequence");
  }
  if (body.outputs().size() != node.outputs.size()) {
    return BadInput("the body gives {} outputs, the node {}", body.outputs().size(), node.outputs.size());
  }
  const std::vector<ir::ValueId> old_inputs = body.inputs();
  while (!body.inputs().empty()) body.RemoveInput(body.inputs().size() - 1);
  const ir::ValueId i = body.AddInput("iteration", DType::kI64, SymShape(Shape()));
  const ir::ValueId go = body.AddInput("condition", DType::kBool, SymShape(Shape()));
  std::vector<ir::ValueId> inputs{b->Emit("SequenceLength", {node.inputs[0]}), ir::kNone};
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const ir::ValueId result = body.outputs()[k];
    const ir::ValueId list = body.AddInput("results", body.value(result).dtype, SymShape());
    body.value(list).is_sequence = true;
    const ir::ValueId longer = body.AddValue("", body.value(result).dtype, SymShape());
    body.value(longer).is_sequence = true;
    AddNode(&body, "SequenceInsert", {list, result}, {longer});
    body.SetOutput(k, longer);
    Attrs empty;
    empty.Set("dtype", static_cast<int64_t>(body.value(result).dtype));
    inputs.push_back(b->Emit("SequenceEmpty", {}, std::move(empty)));
  }
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ir::ValueId given = node.inputs[k];
    inputs.push_back(given);
    if (k >= own || !b->value(given).is_sequence) {
      body.MarkInput(old_inputs[k]);
      continue;
    }
    const ir::ValueId sequence = body.AddInput(b->value(given).name, b->value(given).dtype, SymShape());
    body.value(sequence).is_sequence = true;
    AddNode(&body, "SequenceAt", {sequence, i}, {old_inputs[k]});
  }
  // The condition comes first among a Loop's results.
  const std::vector<ir::ValueId> results = body.outputs();
  while (!body.outputs().empty()) body.RemoveOutput(body.outputs().size() - 1);
  const ir::ValueId go_on = body.AddValue("", DType::kBool, SymShape(Shape()));
  AddNode(&body, "Identity", {go}, {go_on});
  body.AddOutput(go_on);
  for (ir::ValueId r : results) body.AddOutput(r);
  node.op = "Loop";
  node.inputs = std::move(inputs);
  node.attrs = Attrs();
  node.attrs.Set("captures", static_cast<int64_t>(own + captures));
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
