// Gated and recurrent operators of com.microsoft, as recent language models have them.
#include "import/onnx/emit.h"

namespace tenon::import::onnx_format {

using ir::ValueId;

namespace {

// Attributes of forms that only other devices have, or that Tenon's operator lacks.
Status KeepDefaults(const Pending& p, std::initializer_list<std::pair<const char*, int64_t>> attributes) {
  for (const auto& [name, value] : attributes) {
    const int64_t given = p.node.attrs.Int(name, value);
    if (given != value) return Unsupported("{} = {} is not supported; {} is", name, given, value);
  }
  return Status::Ok();
}

}  // namespace

// X, scale [c], gate: RMS norm of each c elements, times the activation of the gate
Status MicrosoftGatedRmsNorm(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2}));
  const std::string activation = p->node.attrs.String("activation", "silu");
  if (activation != "silu" && activation != "swish" && activation != "sigmoid") {
    return BadInput("activation is '{}'; allowed: silu, swish, sigmoid", activation);
  }
  const ValueId shape = emit::Concat(b, {b->Ints({-1}), b->Emit("Shape", {p->In(1)})}, 0);
  Attrs attrs = emit::FloatAttr("epsilon", p->node.attrs.Float("epsilon", 1e-5F));
  attrs.Set("axis", int64_t{-1});
  const ValueId rows = b->Emit("RMSNormalization", {b->Emit("Reshape", {p->In(0), shape}), p->In(1)}, std::move(attrs));
  const ValueId norm = b->Emit("Reshape", {rows, b->Emit("Shape", {p->In(0)})});
  emit::Become(b, p, "Mul", {norm, b->Emit(activation == "sigmoid" ? "Sigmoid" : "Swish", {p->In(2)})});
  return Status::Ok();
}

// X, scale (else attribute alpha): z * sigmoid(z), z = scale * X
Status MicrosoftScaledSilu(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  const ValueId scale = p->Has(1) ? b->Emit("CastLike", {emit::Reshape(b, p->In(1), {}), p->In(0)})
                                  : b->ScalarLike(p->node.attrs.Float("alpha", 1), p->In(0));
  emit::Become(b, p, "Swish", {b->Emit("Mul", {p->In(0), scale})});
  return Status::Ok();
}

// X, Y, gate: X + Y * gate
Status MicrosoftGatedAdd(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2}));
  if (p->Has(3)) return Unsupported("gate_weight is not supported");
  emit::Become(b, p, "Add", {p->In(0), b->Emit("Mul", {p->In(1), p->In(2)})});
  return Status::Ok();
}

Status MicrosoftLinearAttention(Builder* /*b*/, Pending* p) {
  TENON_RETURN_IF_ERROR(KeepDefaults(*p, {{"state_window", 0}}));
  p->node.attrs.Erase("state_window");
  p->node.op = "LinearAttention";
  return Status::Ok();
}

Status MicrosoftCausalConv(Builder* /*b*/, Pending* p) {
  TENON_RETURN_IF_ERROR(KeepDefaults(*p, {{"ndim", 1},
                                          {"dilation", 1},
                                          {"channels_last", 0},
                                          {"state_window", 0},
                                          {"state_length", 0},
                                          {"state_channels_last", -1},
                                          {"input_channel_offset", 0},
                                          {"state_update_capacity", 0}}));
  if (p->Used(2)) return Unsupported("output state_update is not supported");
  Attrs attrs;
  attrs.Set("activation", p->node.attrs.String("activation", "none"));
  p->node.attrs = std::move(attrs);
  p->node.op = "CausalConvWithState";
  if (p->node.outputs.size() > 2) p->node.outputs.resize(2);
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
