// ConstantFolding: nodes whose inputs are all known are evaluated now; small integer tensors whose elements the shape rules know
// become constants; an If with a known condition is replaced by the branch it takes.
#include <algorithm>

#include "base/half.h"
#include "passes/inline_body.h"
#include "passes/pass.h"

namespace tenon::passes {
namespace {

// Outputs up to here are folded whatever their inputs: never worth a step at run time.
constexpr size_t kAlwaysFoldBytes = 64u << 10;
// Beyond that an output may have this many times the bytes of what it is made from, or as many elements (weights of 4 bits);
// a broadcast constant only bloats the model.
constexpr size_t kMaxGrowth = 4;

struct Size {
  size_t bytes = 0;
  int64_t elements = 0;
  void Add(DType t, int64_t count) {
    bytes += DTypeBytes(t, count);
    elements += count;
  }
};

bool InputsKnown(const Rewriter& r, NodeId id) {
  for (ValueId v : r.node(id).inputs) {
    if (v != kNone && !r.IsConst(v)) return false;
  }
  return true;
}

// An unknown size is not a large one: the check is made again on the result.
bool WithinCap(const Rewriter& r, NodeId id, const Size& out) {
  if (out.bytes <= kAlwaysFoldBytes) return true;
  Size in;
  for (ValueId v : r.node(id).inputs) {
    if (v != kNone && r.value(v).constant.defined()) in.Add(r.TypeOf(v), r.value(v).constant.shape().num_elements());
  }
  if (out.bytes <= in.bytes) return true;  // Transpose, Slice, Reshape, ... of weights
  return out.bytes <= r.context().fold_cap_bytes && (out.bytes / kMaxGrowth <= in.bytes || out.elements <= in.elements);
}

Size KnownOutputSize(const Rewriter& r, NodeId id) {
  Size size;
  for (ValueId v : r.node(id).outputs) {
    if (v == kNone) continue;
    const auto shape = r.ShapeOf(v).ToShape();
    if (!shape || r.TypeOf(v) == DType::kUndefined || !CheckedShape(shape->dims()).ok()) continue;
    size.Add(r.TypeOf(v), shape->num_elements());
  }
  return size;
}

bool MayFold(const Rewriter& r, NodeId id) {
  const ir::Node& n = r.node(id);
  if (!n.bodies.empty() || n.outputs.empty()) return false;
  if (ops::HasTrait(n.op, ops::kRandom) || kernels::FindOp(n.op) == nullptr) return false;
  for (ValueId v : n.inputs) {
    if (v != kNone && r.value(v).is_sequence) return false;
  }
  return std::none_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return v != kNone && r.value(v).is_sequence; });
}

// An output of the graph that is a constant needs a node to give it its name: leave those nodes as they are.
bool AnyIsOutput(Rewriter& r, NodeId id) {
  const auto& outs = r.node(id).outputs;
  return std::any_of(outs.begin(), outs.end(), [&](ValueId v) { return v != kNone && r.graph().IsOutput(v); });
}

bool Evaluate(Rewriter& r, NodeId id) {
  if (!InputsKnown(r, id) || !MayFold(r, id)) return false;
  if (r.node(id).op == "Identity" && AnyIsOutput(r, id)) return false;
  if (!WithinCap(r, id, KnownOutputSize(r, id))) {
    r.Refuse("the folded constant would be larger than the cap");
    return false;
  }
  std::vector<View> in;
  for (ValueId v : r.node(id).inputs) in.push_back(v == kNone ? View{} : r.value(v).constant.view());
  const ir::Node& n = r.node(id);
  auto out = kernels::Evaluate(n.op, n.attrs, in, static_cast<int>(n.outputs.size()), r.context().isa, *r.context().team);
  if (!out.ok()) {
    // Bad data (division by zero, index out of range) is reported at run time, as it would be without folding.
    r.Refuse("could not be evaluated");
    return false;
  }
  Size size;
  for (const Tensor& t : *out) size.Add(t.dtype(), t.shape().num_elements());
  if (!WithinCap(r, id, size)) {
    r.Refuse("the folded constant would be larger than the cap");
    return false;
  }
  const std::vector<ValueId> outputs = n.outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == kNone || !(*out)[i].defined()) continue;
    const std::string name = r.value(outputs[i]).name;
    r.Replace(outputs[i], r.Constant(name, (*out)[i]));
  }
  return true;
}

// Quantised weights stay quantised for the fusions to see; FoldDequantizedWeights comes last.
bool FoldNode(Rewriter& r, NodeId id) {
  return r.node(id).op != "DequantizeLinear" && Evaluate(r, id);
}

template <typename T>
Tensor TensorOf(const std::vector<int64_t>& values, const Shape& shape) {
  std::vector<T> typed(values.begin(), values.end());
  return Tensor::FromVector<T>(shape, typed);
}

// Shape arithmetic that the rules have already done.
bool FoldKnownElements(Rewriter& r, NodeId id) {
  if (r.node(id).outputs.size() != 1 || r.node(id).outputs[0] == kNone || !r.node(id).bodies.empty()) return false;
  const ValueId out = r.Out(id);
  if (!r.value(out).elements || ops::HasTrait(r.node(id).op, ops::kRandom)) return false;
  const auto values = r.ConstInts(out);
  const auto shape = r.ShapeOf(out).ToShape();
  const DType t = r.TypeOf(out);
  if (!values || !shape || shape->num_elements() != static_cast<int64_t>(values->size())) return false;
  if (t != DType::kI64 && t != DType::kI32 && t != DType::kBool) return false;
  if (r.node(id).op == "Identity" && AnyIsOutput(r, id)) return false;
  const Tensor constant = t == DType::kI64   ? TensorOf<int64_t>(*values, *shape)
                          : t == DType::kI32 ? TensorOf<int32_t>(*values, *shape)
                                             : TensorOf<bool>(*values, *shape);
  const std::string name = r.value(out).name;
  r.Replace(out, r.Constant(name, constant));
  return true;
}

bool TakeKnownBranch(Rewriter& r, NodeId id) {
  if (r.node(id).op != "If" || !r.IsConst(r.In(id, 0)) || r.node(id).bodies.size() != 2) return false;
  const View condition = r.value(r.In(id, 0)).constant.view();
  if (condition.dtype != DType::kBool || condition.num_elements() != 1) return false;
  const std::vector<ValueId>& in = r.node(id).inputs;
  InlineBody(r, id, *condition.Data<bool>() ? 0 : 1, {in.begin() + 1, in.end()});
  return true;
}

}  // namespace

Status ConstantFolding(Rewriter& r) {
  return ApplyRules(r, {}, {TakeKnownBranch, FoldKnownElements, FoldNode});
}

Status FoldDequantizedWeights(Rewriter& r) {
  return ApplyRules(r, {"DequantizeLinear"}, {Evaluate});
}

}  // namespace tenon::passes
