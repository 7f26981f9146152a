// Types and shapes over a graph: the shape rules of the kernel families, applied in order, with symbols.
#include "ops/control_flow.h"
#include "ops/op.h"

namespace tenon::ops {

using kernels::ValueInfo;

std::vector<ValueInfo> InputInfos(const ir::Graph& graph, const ir::Node& node, std::vector<View>* storage) {
  std::vector<ValueInfo> infos(node.inputs.size());
  storage->assign(node.inputs.size(), View{});
  for (size_t i = 0; i < infos.size(); ++i) {
    if (node.inputs[i] == ir::kNone) continue;
    const ir::Value& v = graph.value(node.inputs[i]);
    infos[i].present = true;
    infos[i].dtype = v.dtype;
    infos[i].is_sequence = v.is_sequence;
    infos[i].shape = v.shape;
    infos[i].elements = v.elements;
    if (v.constant.defined()) {
      (*storage)[i] = v.constant.view();
      infos[i].data = &(*storage)[i];
    }
  }
  return infos;
}

namespace {

// What the rule says wins; where it says nothing, what was known stays; what nobody knows gets a name of its own.
void Merge(const ValueInfo& inferred, ir::Value* v) {
  if (inferred.dtype != DType::kUndefined) v->dtype = inferred.dtype;
  v->is_sequence = inferred.is_sequence;
  if (inferred.elements) v->elements = inferred.elements;
  if (!inferred.shape.has_rank()) return;
  const SymShape known = std::move(v->shape);
  v->shape = inferred.shape;
  for (int i = 0; i < v->shape.rank(); ++i) {
    if (!v->shape[i].is_unknown()) continue;
    const bool usable = known.has_rank() && known.rank() == v->shape.rank() && !known[i].is_unknown();
    v->shape[i] = usable ? known[i] : Dim::Symbol(fmt::format("{}.{}", v->name, i));
  }
}

}  // namespace

Status InferNode(ir::Graph& graph, ir::NodeId id) {
  ir::Node& node = graph.node(id);
  std::vector<View> storage;
  const std::vector<ValueInfo> in = InputInfos(graph, node, &storage);
  std::vector<ValueInfo> out(node.outputs.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].present = node.outputs[i] != ir::kNone;
    // What the model declares: OptionalGetElement alone cannot tell an optional tensor from a sequence of one.
    if (out[i].present) out[i].is_sequence = graph.value(node.outputs[i]).is_sequence;
  }
  if (HasTrait(node.op, kControlFlow)) {
    TENON_RETURN_IF_ERROR(InferControlFlow(node, in, out).Within(Describe(node)));
  } else {
    TENON_RETURN_IF_ERROR(kernels::InferShapes(node.op, {node.attrs, in, out}).Within(Describe(node)));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (node.outputs[i] != ir::kNone) Merge(out[i], &graph.value(node.outputs[i]));
  }
  return Status::Ok();
}

Status InferGraph(ir::Graph& graph) {
  TENON_ASSIGN_OR_RETURN(const auto order, graph.TopologicalOrder());
  for (ir::NodeId id : order) TENON_RETURN_IF_ERROR(InferNode(graph, id));
  return Status::Ok();
}

bool KernelExists(const ir::Graph& graph, std::string_view op, const Attrs& attrs, std::span<const ir::ValueId> inputs,
                  hw::IsaMask isa) {
  if (kernels::FindOp(op) == nullptr) return false;
  ir::Node node;
  node.inputs.assign(inputs.begin(), inputs.end());
  std::vector<View> storage;
  const std::vector<ValueInfo> in = InputInfos(graph, node, &storage);
  std::vector<ValueInfo> out(1);
  out[0].present = true;
  if (!kernels::InferShapes(op, {attrs, in, out}).ok()) return false;
  return kernels::ChooseRow({op, attrs, in, out, isa, 1}).ok();
}

}  // namespace tenon::ops
