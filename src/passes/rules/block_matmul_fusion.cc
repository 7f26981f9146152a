// Products with weights in blocks that share their input become one; gates and residuals become part of them.
#include "passes/pass.h"

namespace tenon::passes {
namespace {

// The product that makes `v`, when nobody else reads it and it is still plain: no gate, no residual.
NodeId PlainProduct(const Rewriter& r, ValueId v) {
  const NodeId id = v == kNone ? kNone : r.SoleProducer(v, "BlockMatMul");
  return id != kNone && r.In(id, 1) == kNone && !r.node(id).attrs.Has("gate") ? id : kNone;
}

// Weights, biases and formats of `product` go behind those of others.
void Append(const Rewriter& r, NodeId product, std::vector<ValueId>* inputs, std::vector<std::string>* formats) {
  const std::vector<std::string> own = r.node(product).attrs.Strings("formats");
  for (size_t p = 0; p < own.size(); ++p) {
    inputs->push_back(r.In(product, 2 + 2 * p));
    inputs->push_back(r.In(product, 3 + 2 * p));
  }
  formats->insert(formats->end(), own.begin(), own.end());
}

ValueId Joined(Rewriter& r, std::initializer_list<NodeId> products, const char* gate) {
  std::vector<ValueId> inputs = {r.In(*products.begin(), 0), kNone};
  std::vector<std::string> formats;
  for (NodeId p : products) {
    if (r.In(p, 0) != inputs[0]) return kNone;
    Append(r, p, &inputs, &formats);
  }
  while (inputs.back() == kNone) inputs.pop_back();
  Attrs attrs;
  attrs.Set("formats", formats);
  if (gate != nullptr) {
    if (formats.size() != 2) return kNone;
    attrs.Set("gate", std::string(gate));
  }
  if (!r.KernelExists("BlockMatMul", attrs, inputs)) return kNone;
  return r.Add("BlockMatMul", std::move(inputs), std::move(attrs), *products.begin());
}

bool FuseQkv(Rewriter& r, NodeId id) {
  const NodeId q = PlainProduct(r, r.In(id, 0)), k = PlainProduct(r, r.In(id, 1)), v = PlainProduct(r, r.In(id, 2));
  if (q == kNone || k == kNone || v == kNone) return false;
  const ValueId joined = Joined(r, {q, k, v}, nullptr);
  if (joined == kNone) return false;
  std::vector<ValueId> inputs = r.node(id).inputs;
  inputs[0] = joined, inputs[1] = inputs[2] = kNone;
  const ValueId y = r.Add("CachedAttention", std::move(inputs), r.node(id).attrs, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

bool FuseGate(Rewriter& r, NodeId id) {
  ValueId gate = r.In(id, 0), up = r.In(id, 1);
  const char* kind = "silu";
  if (r.node(id).op == "Mul") {
    const NodeId gelu = gate == kNone ? kNone : r.SoleProducer(gate, "Gelu");
    if (gelu == kNone || r.node(gelu).attrs.String("approximate", "none") != "tanh") return false;
    gate = r.In(gelu, 0), kind = "gelu";
  } else if (r.node(id).attrs.Float("alpha", 1) != 1) {
    return false;
  }
  const NodeId a = PlainProduct(r, gate), b = PlainProduct(r, up);
  if (a == kNone || b == kNone || a == b) return false;
  const ValueId y = Joined(r, {a, b}, kind);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

// The stream of a language model, [.., width] throughout.
bool IsStream(const Rewriter& r, ValueId v) {
  const NodeId id = v == kNone ? kNone : r.Producer(v);
  return id != kNone && (r.node(id).op == "BlockGather" || r.node(id).op == "Add" || r.node(id).op == "BlockMatMul");
}

bool FuseResidual(Rewriter& r, NodeId id) {
  for (size_t side : {size_t{1}, size_t{0}}) {
    const NodeId product = PlainProduct(r, r.In(id, side));
    const ValueId residual = r.In(id, 1 - side);
    if (product == kNone || !IsStream(r, residual)) continue;
    std::vector<ValueId> inputs = r.node(product).inputs;
    inputs[1] = residual;
    const Attrs attrs = r.node(product).attrs;
    if (!r.KernelExists("BlockMatMul", attrs, inputs)) continue;
    const ValueId y = r.Add("BlockMatMul", std::move(inputs), attrs, product);
    if (y == kNone) continue;
    r.Replace(r.Out(id), y);
    return true;
  }
  return false;
}

}  // namespace

Status BlockMatMulFusion(Rewriter& r) {
  TENON_RETURN_IF_ERROR(ApplyRules(r, {"CachedAttention"}, {FuseQkv}));
  TENON_RETURN_IF_ERROR(ApplyRules(r, {"SwiGLU", "Mul"}, {FuseGate}));
  return ApplyRules(r, {"Add"}, {FuseResidual});
}

}  // namespace tenon::passes
