// FlexAttention (ai.onnx.preview): attention whose scores and probabilities pass through graphs of the model. Without such
// graphs it is Attention; with them it is written out, with the graphs' nodes in the middle, and rules may fuse what is left.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>

#include "import/onnx/emit.h"
#include "import/onnx/graph_reader.h"

namespace tenon::import::onnx_format {

namespace {

using emit::IntAttr;

ir::ValueId Cast(Builder* b, ir::ValueId v, DType to) {
  return b->value(v).dtype == to ? v : b->Emit("Cast", {v}, IntAttr("to", static_cast<int64_t>(to)));
}

// Extents [start, end) of `v`, as a list.
ir::ValueId Extents(Builder* b, ir::ValueId v, int64_t start, int64_t end) {
  Attrs a = IntAttr("start", start);
  a.Set("end", end);
  return b->Emit("Shape", {v}, std::move(a));
}

ir::ValueId Reshape(Builder* b, ir::ValueId v, std::vector<ir::ValueId> parts) {
  return b->Emit("Reshape", {v, b->Emit("Concat", std::move(parts), IntAttr("axis", 0))});
}

Result<DType> SoftmaxType(const Builder& b, const Pending& p) {
  const DType type = b.value(p.In(0)).dtype;
  if (type == DType::kUndefined) return Unsupported("the element type of the query is not known");
  const auto fallback = static_cast<int64_t>(type == DType::kF64 ? DType::kF64 : DType::kF32);
  const auto wanted = static_cast<DType>(p.node.attrs.Int("softmax_precision", fallback));
  if (wanted != DType::kF32 && wanted != DType::kF64 && wanted != DType::kF16 && wanted != DType::kBF16) {
    return BadInput("softmax_precision is {}; allowed are the float types 1, 10, 11 and 16",
                    p.node.attrs.Int("softmax_precision", 0));
  }
  return wanted;
}

Status CheckRanks(const Builder& b, const Pending& p) {
  for (size_t i = 0; i < 3; ++i) {
    if (!p.Has(i)) return BadInput("needs a query, a key and a value");
    const auto rank = b.Rank(p.In(i));
    if (rank && *rank != 4) return BadInput("input {} has rank {}; 4 needed", i, *rank);
    if (b.value(p.In(i)).dtype != b.value(p.In(0)).dtype) return BadInput("query, key and value differ in element type");
  }
  return Status::Ok();
}

// The root of the factor, by which query and key are multiplied each.
ir::ValueId RootOfScale(Builder* b, const Pending& p) {
  const ir::ValueId q = p.In(0);
  const SymShape& shape = b->value(q).shape;
  if (p.node.attrs.Has("scale")) return b->ScalarLike(std::sqrt(p.node.attrs.Float("scale", 1)), q);
  if (shape.has_rank() && shape[3].is_const() && shape[3].value() > 0) {
    return b->ScalarLike(std::sqrt(1 / std::sqrt(static_cast<float>(shape[3].value()))), q);
  }
  const ir::ValueId size = Cast(b, Extents(b, q, 3, 4), DType::kF32);
  const ir::ValueId root = b->Emit("Sqrt", {b->Emit("Reciprocal", {b->Emit("Sqrt", {size})})});
  return b->Emit("CastLike", {root, q});
}

bool SameHeads(const Builder& b, ir::ValueId q, ir::ValueId k) {
  const SymShape &x = b.value(q).shape, &y = b.value(k).shape;
  return x.has_rank() && y.has_rank() && x[1] == y[1];
}

}  // namespace

// Reads the graph `name`, when there is one, into the graph around it, with `*value` as its input; then `*value` is its output.
Status GraphReader::InlineModifier(NodeAttributes* attributes, const std::string& name, const Pending& pending, Scope* scope,
                                   ir::ValueId* value) {
  auto it = std::find_if(attributes->graphs.begin(), attributes->graphs.end(), [&](const auto& g) { return g.first == name; });
  if (it == attributes->graphs.end()) return Status::Ok();
  onnx::GraphProto* graph = it->second;
  if (graph->input_size() != 1 || graph->output_size() != 1) {
    return BadInput("takes {} inputs and gives {} outputs; one each is needed", graph->input_size(), graph->output_size());
  }
  Scope inner;
  inner.builder = scope->builder;
  inner.parent = scope;
  inner.call = scope->call;
  inner.opsets = scope->opsets;
  inner.prefix = pending.node.name + "/" + name + "/";
  inner.depth = scope->depth + 1;
  std::map<std::string, Tensor> initializers;
  TENON_RETURN_IF_ERROR(ReadInitializers(graph, &initializers));
  TENON_RETURN_IF_ERROR(Bind(&inner, graph->input(0).name(), *value));
  for (auto& [constant, tensor] : initializers) {
    const ir::ValueId id = scope->builder->graph().AddConstant(inner.prefix + constant, std::move(tensor));
    TENON_RETURN_IF_ERROR(Bind(&inner, constant, id));
  }
  TENON_RETURN_IF_ERROR(ReadNodes(graph, &inner));
  const DType type = scope->builder->value(*value).dtype;
  if (!Lookup(&inner, graph->output(0).name(), value) || *value == ir::kNone) {
    return BadInput("output '{}' is produced by no node", graph->output(0).name());
  }
  const DType got = scope->builder->value(*value).dtype;
  if (got != type && got != DType::kUndefined) return BadInput("gives {} for {}", DTypeName(got), DTypeName(type));
  scope->builder->SetPrefix(pending.node.name);
  return Status::Ok();
}

Status GraphReader::ReadFlexAttention(const onnx::NodeProto& proto, NodeAttributes* attributes, Scope* scope, Pending* pending) {
  Builder& b = *scope->builder;
  for (const auto& [name, graph] : attributes->graphs) {
    if (name != "score_mod" && name != "prob_mod") return Unsupported("graph '{}' as an attribute is not supported", name);
  }
  TENON_RETURN_IF_ERROR(CheckRanks(b, *pending));
  TENON_ASSIGN_OR_RETURN(const DType precision, SoftmaxType(b, *pending));
  TENON_RETURN_IF_ERROR(CreateOutputs(proto, scope, pending));
  ir::Node& node = pending->node;
  if (attributes->graphs.empty()) {
    node.op = "Attention";
    node.attrs.Set("softmax_precision", static_cast<int64_t>(precision));
    return AddUpgraded(pending, scope);
  }
  b.SetPrefix(node.name);
  const ir::ValueId q = node.inputs[0], k = node.inputs[1], v = node.inputs[2];
  const ir::ValueId root = RootOfScale(&b, *pending);
  // Heads that share keys and values are laid end to end: [batch, kv heads, group * queries, ...].
  const bool grouped = !SameHeads(b, q, k);
  const auto group = [&](ir::ValueId x, ir::ValueId last) {
    return Reshape(&b, x, {Extents(&b, q, 0, 1), Extents(&b, k, 1, 2), b.Ints({-1}), last});
  };
  const auto ungroup = [&](ir::ValueId x, ir::ValueId last) { return Reshape(&b, x, {Extents(&b, q, 0, 3), last}); };
  Attrs swap;
  swap.Set("perm", std::vector<int64_t>{0, 1, 3, 2});
  ir::ValueId scaled = b.Emit("Mul", {q, root});
  if (grouped) scaled = group(scaled, Extents(&b, q, 3, 4));
  ir::ValueId x = b.Emit("MatMul", {scaled, b.Emit("Transpose", {b.Emit("Mul", {k, root})}, std::move(swap))});
  if (grouped) x = ungroup(x, Extents(&b, k, 2, 3));
  x = Cast(&b, x, precision);
  TENON_RETURN_IF_ERROR(InlineModifier(attributes, "score_mod", *pending, scope, &x).Within("score_mod"));
  x = b.Emit("Softmax", {x}, IntAttr("axis", -1));
  TENON_RETURN_IF_ERROR(InlineModifier(attributes, "prob_mod", *pending, scope, &x).Within("prob_mod"));
  if (grouped) x = group(x, Extents(&b, k, 2, 3));
  x = b.Emit("MatMul", {x, Cast(&b, v, precision)});
  if (grouped) x = ungroup(x, Extents(&b, v, 3, 4));
  node.op = "Cast";
  node.inputs = {x};
  node.attrs = IntAttr("to", static_cast<int64_t>(b.value(q).dtype));
  return AddUpgraded(pending, scope);
}

}  // namespace tenon::import::onnx_format
