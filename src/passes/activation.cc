#include "passes/activation.h"

#include <cmath>
#include <limits>

namespace tenon::passes {
namespace {

std::optional<ActivationAttrs> Clip(const Rewriter& r, NodeId id) {
  const float infinity = std::numeric_limits<float>::infinity();
  float bounds[2] = {-infinity, infinity};
  for (size_t i = 0; i < 2; ++i) {
    const ValueId bound = r.In(id, i + 1);
    if (bound == kNone) continue;
    const auto s = r.Scalar(bound);
    if (!s || std::isnan(*s)) return std::nullopt;
    bounds[i] = static_cast<float>(*s);
  }
  if (!(bounds[0] <= bounds[1])) return std::nullopt;
  if (bounds[0] == 0 && bounds[1] == infinity) return ActivationAttrs{"Relu", {}};
  return ActivationAttrs{"Clip", {bounds[0], bounds[1]}};
}

}  // namespace

std::optional<ActivationAttrs> ActivationOf(const Rewriter& r, NodeId id) {
  const ir::Node& n = r.node(id);
  if (n.inputs.empty() || n.outputs.size() != 1) return std::nullopt;
  if (n.op == "Relu" || n.op == "Sigmoid" || n.op == "Tanh" || n.op == "HardSwish" || n.op == "Silu")
    return ActivationAttrs{n.op, {}};
  if (n.op == "Swish" && n.attrs.Float("alpha", 1) == 1) return ActivationAttrs{"Silu", {}};
  if (n.op == "LeakyRelu") return ActivationAttrs{n.op, {n.attrs.Float("alpha", 0.01f)}};
  if (n.op == "HardSigmoid") return ActivationAttrs{n.op, {n.attrs.Float("alpha", 0.2f), n.attrs.Float("beta", 0.5f)}};
  if (n.op == "Gelu") return ActivationAttrs{n.attrs.String("approximate", "none") == "tanh" ? "GeluTanh" : "Gelu", {}};
  if (n.op == "Clip") return Clip(r, id);
  return std::nullopt;
}

bool HasActivation(const Attrs& attrs) {
  return !attrs.String("activation", "").empty() || attrs.Float("post_scale", 1) != 1 || attrs.Float("post_shift", 0) != 0;
}

namespace {

// post_scale*v + post_shift, then s*() or +t.
bool TakeScalar(Rewriter& r, NodeId id, NodeId reader) {
  const std::string& op = r.node(reader).op;
  if ((op != "Mul" && op != "Add") || r.node(id).attrs.String("activation", "").empty()) return false;
  const auto split = r.SplitConst(reader);
  if (!split) return false;
  const auto s = r.Scalar(split->second);
  if (!s || !std::isfinite(*s) || r.value(split->second).shape.rank() > r.RankOf(r.Out(id))) return false;
  const Attrs& attrs = r.node(id).attrs;
  const double scale = attrs.Float("post_scale", 1) * (op == "Mul" ? *s : 1);
  const double shift = op == "Mul" ? attrs.Float("post_shift", 0) * *s : attrs.Float("post_shift", 0) + *s;
  r.patch().SetAttr(id, "post_scale", static_cast<float>(scale));
  r.patch().SetAttr(id, "post_shift", static_cast<float>(shift));
  return true;
}

}  // namespace

bool FuseEpilogue(Rewriter& r, NodeId id, NodeId reader) {
  const ValueId y = r.Out(id);
  if (r.TypeOf(y) != r.TypeOf(r.Out(reader))) return false;
  if (!r.OneReader(y)) return false;
  const auto activation = ActivationOf(r, reader);
  if (activation && r.In(reader, 0) == y && !HasActivation(r.node(id).attrs)) {
    r.patch().SetAttr(id, "activation", activation->name);
    if (!activation->params.empty()) r.patch().SetAttr(id, "activation_params", activation->params);
  } else if (!TakeScalar(r, id, reader)) {
    return false;
  }
  r.Replace(r.Out(reader), y);
  return true;
}

}  // namespace tenon::passes
