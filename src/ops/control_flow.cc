#include "ops/control_flow.h"

namespace tenon::ops {

using kernels::ValueInfo;

int64_t NumCaptures(const ir::Node& node) {
  return node.attrs.Int("captures", 0);
}

namespace {

// What a body input may assume of the value passed to it.
void BindInput(const ValueInfo& given, bool may_change, ir::Value* v) {
  if (given.dtype != DType::kUndefined) v->dtype = given.dtype;
  v->is_sequence = given.is_sequence;
  if (may_change) {
    // A carried value may change its shape from one iteration to the next: only the rank's presence is kept.
    v->shape = given.shape.has_rank() && given.shape.rank() == 0 ? given.shape : SymShape();
    v->elements.reset();
    return;
  }
  v->shape = given.shape;
  v->elements = given.elements;
}

void TakeOutput(const ir::Value& v, ValueInfo* out) {
  out->dtype = v.dtype;
  out->is_sequence = v.is_sequence;
  out->shape = v.shape;
}

// Symbols born inside a body mean nothing outside.
void ForgetSymbols(ValueInfo* out) {
  if (!out->shape.has_rank()) return;
  for (Dim& d : out->shape.dims()) {
    if (!d.is_const()) d = Dim::Unknown();
  }
}

Status CheckBodies(const ir::Node& node, size_t bodies, size_t inputs, size_t outputs) {
  if (node.bodies.size() != bodies) return BadInput("has {} bodies instead of {}", node.bodies.size(), bodies);
  for (const auto& body : node.bodies) {
    if (body->inputs().size() != inputs) {
      return BadInput("body '{}' takes {} inputs, the node passes {}", body->name, body->inputs().size(), inputs);
    }
    if (body->outputs().size() < outputs) {
      return BadInput("body '{}' gives {} outputs, the node expects {}", body->name, body->outputs().size(), outputs);
    }
  }
  return Status::Ok();
}

// What is true of both shapes.
SymShape Common(const SymShape& a, const SymShape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return SymShape();
  SymShape common = a;
  for (int d = 0; d < a.rank(); ++d) {
    if (!(a[d] == b[d])) common[d] = Dim::Unknown();
  }
  return common;
}

Status InferIf(ir::Node& node, std::span<const ValueInfo> in, std::span<ValueInfo> out) {
  if (in.empty() || !in[0].present) return BadInput("needs its condition");
  TENON_RETURN_IF_ERROR(CheckBodies(node, 2, in.size() - 1, out.size()));
  // A branch that does not fit the shapes at hand (a Split into four of a tensor with five rows) is a fault only if it is taken.
  Status fits[2];
  for (size_t k = 0; k < 2; ++k) {
    ir::Graph& body = *node.bodies[k];
    for (size_t i = 1; i < in.size(); ++i) BindInput(in[i], false, &body.value(body.inputs()[i - 1]));
    fits[k] = InferGraph(body);
  }
  if (!fits[0].ok() && (!fits[1].ok() || fits[0].code() != Code::kBadInput)) return fits[0];
  if (!fits[1].ok() && fits[1].code() != Code::kBadInput) return fits[1];
  const ir::Graph& a = *node.bodies[fits[0].ok() ? 0 : 1];
  const ir::Graph& b = *node.bodies[fits[1].ok() ? 1 : 0];
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].present) continue;
    const ir::Value& x = a.value(a.outputs()[i]);
    const ir::Value& y = b.value(b.outputs()[i]);
    TakeOutput(x, &out[i]);
    if (x.dtype != y.dtype && x.dtype != DType::kUndefined && y.dtype != DType::kUndefined) {
      return BadInput("branches give {} and {} for output {}", DTypeName(x.dtype), DTypeName(y.dtype), i);
    }
    out[i].shape = Common(x.shape, y.shape);
    ForgetSymbols(&out[i]);
  }
  return Status::Ok();
}

bool SameKnowledge(const SymShape& a, const SymShape& b) {
  if (a.has_rank() != b.has_rank() || (a.has_rank() && a.rank() != b.rank())) return false;
  for (int d = 0; a.has_rank() && d < a.rank(); ++d) {
    if (!(a[d] == b[d]) && !(a[d].is_unknown() && b[d].is_unknown())) return false;
  }
  return true;
}

// What is known of a graph's values, bodies included, in a fixed order.
struct Knowledge {
  SymShape shape;
  std::optional<std::vector<Dim>> elements;
};

template <typename F>
void ForEachValue(ir::Graph& graph, F&& f) {
  for (size_t v = 0; v < graph.num_value_slots(); ++v) f(graph.value(static_cast<ir::ValueId>(v)));
  for (size_t n = 0; n < graph.num_node_slots(); ++n) {
    for (const auto& body : graph.node(static_cast<ir::NodeId>(n)).bodies) ForEachValue(*body, f);
  }
}

std::vector<Knowledge> Known(ir::Graph& graph) {
  std::vector<Knowledge> known;
  ForEachValue(graph, [&](ir::Value& v) { known.push_back({v.shape, v.elements}); });
  return known;
}

void Restore(const std::vector<Knowledge>& known, ir::Graph& graph) {
  size_t i = 0;
  ForEachValue(graph, [&](ir::Value& v) {
    v.shape = known[i].shape;
    v.elements = known[i++].elements;
  });
}

// Infers a loop's body and returns shapes of the carried values that hold in every iteration: the initial shapes are assumed and
// widened by what the body makes of them until nothing changes.
Result<std::vector<SymShape>> InferSteadyShapes(ir::Graph& body, std::span<const ValueInfo> initial) {
  const std::vector<Knowledge> declared = Known(body);
  std::vector<SymShape> assumed(initial.size());
  for (size_t i = 0; i < initial.size(); ++i) {
    if (!initial[i].is_sequence) assumed[i] = initial[i].shape;
  }
  // Every round but the last forgets an extent or a rank.
  for (;;) {
    Restore(declared, body);
    bool any = false;
    for (size_t i = 0; i < assumed.size(); ++i) {
      body.value(body.inputs()[i + 2]).shape = assumed[i];
      any = any || assumed[i].has_rank();
    }
    const Status inferred = InferGraph(body);
    if (!inferred.ok() && (!any || inferred.code() != Code::kBadInput)) return inferred;
    bool steady = inferred.ok();
    for (size_t i = 0; i < assumed.size(); ++i) {
      // Shapes that a body cannot take may be ones that it never meets: a value that grows, say.
      const SymShape wider = inferred.ok() ? Common(assumed[i], body.value(body.outputs()[i + 1]).shape) : SymShape();
      steady = steady && SameKnowledge(wider, assumed[i]);
      assumed[i] = wider;
    }
    if (steady) return assumed;
  }
}

Status InferLoop(ir::Node& node, std::span<const ValueInfo> in, std::span<ValueInfo> out) {
  const auto captures = static_cast<size_t>(NumCaptures(node));
  if (in.size() < 2 + captures) return BadInput("needs a trip count and a condition (either may be absent)");
  const size_t carried = in.size() - 2 - captures;
  TENON_RETURN_IF_ERROR(CheckBodies(node, 1, in.size(), out.size() + 1));
  ir::Graph& body = *node.bodies[0];
  const auto scalar = [&](size_t i, DType t) {
    ir::Value& v = body.value(body.inputs()[i]);
    v.dtype = t;
    // Exporters declare iteration and condition as [] or as [1]; the runtime passes what the body declares.
    if (!v.shape.has_rank()) v.shape = SymShape(Shape());
  };
  scalar(0, DType::kI64);
  scalar(1, DType::kBool);
  for (size_t i = 2; i < in.size(); ++i) BindInput(in[i], i < 2 + carried, &body.value(body.inputs()[i]));
  TENON_ASSIGN_OR_RETURN(const std::vector<SymShape> steady, InferSteadyShapes(body, in.subspan(2, carried)));
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].present) continue;
    TakeOutput(body.value(body.outputs()[i + 1]), &out[i]);
    if (i < carried) {
      out[i].shape = steady[i];
      continue;
    }
    ForgetSymbols(&out[i]);
    if (!out[i].shape.has_rank()) continue;
    std::vector<Dim> dims{Dim::Unknown()};
    dims.insert(dims.end(), out[i].shape.dims().begin(), out[i].shape.dims().end());
    out[i].shape = SymShape(std::move(dims));
  }
  return Status::Ok();
}

Status InferScan(ir::Node& node, std::span<const ValueInfo> in, std::span<ValueInfo> out) {
  const auto captures = static_cast<size_t>(NumCaptures(node));
  const auto scanned = static_cast<size_t>(node.attrs.Int("num_scan_inputs", 0));
  if (scanned == 0 || in.size() < scanned + captures) return BadInput("num_scan_inputs is {}", scanned);
  const size_t states = in.size() - scanned - captures;
  if (out.size() < states) return BadInput("gives {} outputs for {} states", out.size(), states);
  TENON_RETURN_IF_ERROR(CheckBodies(node, 1, in.size(), out.size()));
  ir::Graph& body = *node.bodies[0];
  const std::vector<int64_t> axes = node.attrs.Ints("scan_input_axes");
  Dim length = Dim::Unknown();
  for (size_t i = 0; i < in.size(); ++i) {
    ValueInfo given = in[i];
    if (i >= states && i < states + scanned && given.shape.has_rank()) {
      std::vector<Dim> dims = given.shape.dims();
      int64_t axis = i - states < axes.size() ? axes[i - states] : 0;
      if (axis < 0) axis += static_cast<int64_t>(dims.size());
      if (axis < 0 || axis >= static_cast<int64_t>(dims.size()))
        return BadInput("scan axis {} is outside the input's rank", axis);
      length = dims[static_cast<size_t>(axis)];
      dims.erase(dims.begin() + axis);
      given.shape = SymShape(std::move(dims));
      given.elements.reset();
    }
    BindInput(given, i < states, &body.value(body.inputs()[i]));
    // States keep their shape by the operator's definition.
    if (i < states) body.value(body.inputs()[i]).shape = given.shape;
  }
  TENON_RETURN_IF_ERROR(InferGraph(body));
  const std::vector<int64_t> out_axes = node.attrs.Ints("scan_output_axes");
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].present) continue;
    TakeOutput(body.value(body.outputs()[i]), &out[i]);
    if (i < states || !out[i].shape.has_rank()) continue;
    std::vector<Dim> dims = out[i].shape.dims();
    int64_t axis = i - states < out_axes.size() ? out_axes[i - states] : 0;
    if (axis < 0) axis += static_cast<int64_t>(dims.size()) + 1;
    if (axis < 0 || axis > static_cast<int64_t>(dims.size())) return BadInput("scan axis {} is outside the output's rank", axis);
    dims.insert(dims.begin() + axis, length);
    out[i].shape = SymShape(std::move(dims));
  }
  return Status::Ok();
}

Status InferSequenceMap(ir::Node& node, std::span<const ValueInfo> in, std::span<ValueInfo> out) {
  if (in.empty() || !in[0].present || !in[0].is_sequence) return BadInput("input 0 must be a sequence");
  TENON_RETURN_IF_ERROR(CheckBodies(node, 1, in.size(), out.size()));
  ir::Graph& body = *node.bodies[0];
  const size_t own = in.size() - static_cast<size_t>(NumCaptures(node));
  for (size_t i = 0; i < in.size(); ++i) {
    ir::Value& v = body.value(body.inputs()[i]);
    const bool element = i < own && in[i].is_sequence;
    BindInput(in[i], element, &v);
    if (!element) continue;
    v.is_sequence = false;
    v.shape = SymShape();  // elements may differ in shape
  }
  TENON_RETURN_IF_ERROR(InferGraph(body));
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].present) continue;
    out[i].dtype = body.value(body.outputs()[i]).dtype;
    out[i].is_sequence = true;
  }
  return Status::Ok();
}

}  // namespace

Status InferControlFlow(ir::Node& node, std::span<const ValueInfo> in, std::span<ValueInfo> out) {
  if (node.op == "If") return InferIf(node, in, out);
  if (node.op == "Loop") return InferLoop(node, in, out);
  if (node.op == "Scan") return InferScan(node, in, out);
  if (node.op == "SequenceMap") return InferSequenceMap(node, in, out);
  return Unsupported("operator {} is not supported", node.op);
}

}  // namespace tenon::ops
