// Gradient (ai.onnx.preview.training): names of the graph around it, resolved; the derivative written out as nodes.
#include <algorithm>

#include "import/onnx/gradient/gradient.h"
#include "import/onnx/graph_reader.h"

namespace tenon::import::onnx_format {

Status GraphReader::ReadGradient(Scope* scope, Pending* pending) {
  ir::Node& node = pending->node;
  Builder& b = *scope->builder;
  b.SetPrefix(node.name);
  const std::vector<std::string> xs = node.attrs.Strings("xs"), zs = node.attrs.Strings("zs");
  const std::string y = node.attrs.String("y", "");
  if (xs.empty() || y.empty()) return BadInput("attributes 'xs' and 'y' are needed");
  if (node.inputs.size() != xs.size() + zs.size()) {
    return BadInput("has {} inputs; xs and zs name {}", node.inputs.size(), xs.size() + zs.size());
  }
  if (node.outputs.size() > xs.size()) return BadInput("has {} outputs; xs names {}", node.outputs.size(), xs.size());
  const auto find = [&](const std::string& name, ir::ValueId* id) -> Status {
    if (Lookup(scope, name, id) && *id != ir::kNone) return Status::Ok();
    return BadInput("'{}' of its attributes is produced by no node, input or initializer", name);
  };
  gradient::Problem problem;
  problem.max_nodes = options_.max_nodes;
  problem.refused = [scope](ir::ValueId v) {
    return std::any_of(scope->captures.begin(), scope->captures.end(), [v](const auto& c) { return c.second == v; });
  };
  std::map<ir::ValueId, ir::ValueId> given;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ir::ValueId id = ir::kNone;
    TENON_RETURN_IF_ERROR(find(i < xs.size() ? xs[i] : zs[i - xs.size()], &id));
    if (node.inputs[i] == ir::kNone) return BadInput("input {} is missing", i);
    if (node.inputs[i] != id) given[id] = node.inputs[i];
    i < xs.size() ? problem.xs.push_back(node.inputs[i]) : static_cast<void>(problem.fixed.insert(node.inputs[i]));
  }
  TENON_RETURN_IF_ERROR(find(y, &problem.y));
  if (!given.empty()) {
    TENON_ASSIGN_OR_RETURN(problem.y, gradient::Substitute(&b, problem.y, given, options_.max_nodes));
  }
  if (b.value(problem.y).dtype != DType::kUndefined && !IsFloat(b.value(problem.y).dtype)) {
    return Unsupported("y '{}' is {}; only floats are differentiated", y, DTypeName(b.value(problem.y).dtype));
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<ir::ValueId> found, gradient::Differentiate(&b, problem));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == ir::kNone) continue;
    const ir::ValueId zeros = found[i] == ir::kNone ? gradient::ZerosLike({&b, problem.xs[i]}).id : found[i];
    ir::Node out;
    out.op = "Identity", out.name = node.name;
    out.inputs = {zeros}, out.outputs = {node.outputs[i]};
    b.Add(std::move(out));
  }
  return b.status();
}

}  // namespace tenon::import::onnx_format
