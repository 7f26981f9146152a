// ConvActivationFusion: act(conv(x, w) + b + residual) is one FusedConv.
#include "passes/activation.h"
#include "passes/pass.h"

namespace tenon::passes {
namespace {

bool IsPlainConv(std::string_view op) {
  return op == "Conv" || op == "ConvTranspose";
}
bool IsFusedConv(std::string_view op) {
  return op == "FusedConv" || op == "FusedConvTranspose";
}

// The node as a fused one: itself, or in place of a Conv a FusedConv with the same inputs. kNone when no kernel serves it.
NodeId AsFused(Rewriter& r, NodeId conv) {
  if (IsFusedConv(r.node(conv).op)) return conv;
  const std::string fused = "Fused" + r.node(conv).op;
  if (!r.KernelExists(fused, r.node(conv).attrs, r.node(conv).inputs)) return kNone;
  r.patch().SetOp(conv, fused);
  return conv;
}

bool MayFuse(Rewriter& r, ValueId y) {
  const NodeId conv = r.Producer(y);
  if (conv == kNone || (!IsPlainConv(r.node(conv).op) && !IsFusedConv(r.node(conv).op))) return false;
  if (r.OneReader(y)) return true;
  r.Refuse("the convolution's result is used elsewhere");
  return false;
}

bool FuseActivation(Rewriter& r, NodeId id) {
  const bool binary = r.node(id).op == "Mul" || r.node(id).op == "Add";
  const auto split = binary ? r.SplitConst(id) : std::nullopt;
  if (binary && !split) return false;
  const ValueId y = binary ? split->first : r.In(id, 0);
  if (!binary && !ActivationOf(r, id)) return false;
  if (y == kNone || !MayFuse(r, y)) return false;
  const NodeId conv = r.Producer(y);
  // Before an activation, an addition of a constant belongs into the bias (ConvAddFusion).
  if (binary && !IsFusedConv(r.node(conv).op)) return false;
  const NodeId fused = AsFused(r, conv);
  return fused != kNone && FuseEpilogue(r, fused, id);
}

bool FuseResidual(Rewriter& r, NodeId id) {
  for (size_t side : {size_t{1}, size_t{0}}) {
    const ValueId y = r.In(id, side);
    const ValueId residual = r.In(id, 1 - side);
    if (y == kNone || residual == kNone || y == residual || r.IsConst(residual)) continue;
    const NodeId conv = r.Producer(y);
    if (conv == kNone || (!IsPlainConv(r.node(conv).op) && !IsFusedConv(r.node(conv).op))) continue;
    if (!r.ShapeOf(y).has_rank() || !(r.ShapeOf(y) == r.ShapeOf(residual)) || r.TypeOf(y) != r.TypeOf(residual)) continue;
    if (HasActivation(r.node(conv).attrs) || r.In(conv, 3) != kNone || !MayFuse(r, y)) continue;
    std::vector<ValueId> inputs = r.node(conv).inputs;
    inputs.resize(4, kNone);
    inputs[3] = residual;
    const std::string fused = IsFusedConv(r.node(conv).op) ? r.node(conv).op : "Fused" + r.node(conv).op;
    if (!r.KernelExists(fused, r.node(conv).attrs, inputs)) continue;
    const ValueId out = r.Add(fused, inputs, r.node(conv).attrs, conv);
    if (out == kNone) continue;
    r.Replace(r.Out(id), out);
    return true;
  }
  return false;
}

}  // namespace

Status ConvAddActivationFusion(Rewriter& r) {
  TENON_RETURN_IF_ERROR(ApplyRules(r, {"Add"}, {FuseResidual}));
  return ApplyRules(
      r, {"Relu", "Sigmoid", "Tanh", "HardSwish", "Silu", "Swish", "LeakyRelu", "HardSigmoid", "Gelu", "Clip", "Mul", "Add"},
      {FuseActivation});
}

}  // namespace tenon::passes
