// Operators that ONNX defines by other operators, where Tenon has no kernel of their own.
#include "import/onnx/emit.h"
#include "ops/op.h"

namespace tenon::import::onnx_format {

namespace {

using emit::IntAttr;

ir::ValueId ToInt64(Builder* b, ir::ValueId v) {
  return b->Emit("Cast", {v}, IntAttr("to", static_cast<int64_t>(DType::kI64)));
}

}  // namespace

// Crops or pads each axis around its centre: first Slice where the input is larger, then Pad where it is smaller.
Status ExpandCenterCropPad(Builder* b, Pending* p) {
  if (!p->Has(0) || !p->Has(1)) return BadInput("needs an input and a shape");
  const DType type = b->value(p->In(0)).dtype;
  if (ops::IsSupported(p->node.op) && (DTypeBits(type) >= 8 || type == DType::kUndefined)) return Status::Ok();
  const bool some_axes = p->node.attrs.Has("axes");
  const ir::ValueId axes = some_axes ? b->Ints(p->node.attrs.Ints("axes")) : ir::kNone;
  const ir::ValueId shape = b->Emit("Shape", {p->In(0)});
  const ir::ValueId extents = some_axes ? b->Emit("Gather", {shape, axes}) : shape;
  const ir::ValueId wanted = ToInt64(b, p->In(1));
  const ir::ValueId zero = b->Ints({0});
  const ir::ValueId two = b->Ints({2});
  const ir::ValueId surplus = b->Emit("Max", {b->Emit("Sub", {extents, wanted}), zero});
  const ir::ValueId start = b->Emit("Div", {surplus, two});
  const ir::ValueId end = b->Emit("Add", {start, b->Emit("Min", {extents, wanted})});
  const ir::ValueId cropped = b->Emit("Slice", {p->In(0), start, end, axes});
  const ir::ValueId lacking = b->Emit("Max", {b->Emit("Sub", {wanted, extents}), zero});
  const ir::ValueId before = b->Emit("Div", {lacking, two});
  const ir::ValueId pads = b->Emit("Concat", {before, b->Emit("Sub", {lacking, before})}, IntAttr("axis", 0));
  p->node.op = "Pad";
  p->node.attrs = Attrs();
  p->node.inputs = {cropped, pads, ir::kNone, axes};
  return Status::Ok();
}

// loss[n, d...] = -input[n, target[n, d...], d...] * weight[target], 0 where target == ignore_index; then reduced.
Status ExpandNegativeLogLikelihoodLoss(Builder* b, Pending* p) {
  if (ops::IsSupported(p->node.op)) return Status::Ok();
  if (!p->Has(0) || !p->Has(1)) return BadInput("needs an input and a target");
  const std::string reduction = p->node.attrs.String("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return BadInput("reduction is '{}'; allowed are none, sum, mean", reduction);
  }
  const bool ignores = p->node.attrs.Has("ignore_index");
  ir::ValueId target = p->In(1);
  ir::ValueId ignored = ir::kNone;
  if (ignores) {
    ignored = b->Emit("Equal", {target, b->ScalarLike(static_cast<double>(p->node.attrs.Int("ignore_index", 0)), target)});
    target = b->Emit("Where", {ignored, b->ScalarLike(0, target), target});
  }
  const ir::ValueId axis = b->Ints({1});
  const ir::ValueId picked = b->Emit("GatherElements", {p->In(0), b->Emit("Unsqueeze", {target, axis})}, IntAttr("axis", 1));
  ir::ValueId loss = b->Emit("Neg", {b->Emit("Squeeze", {picked, axis})});
  ir::ValueId weight = ir::kNone;
  const ir::ValueId zero = b->ScalarLike(0, p->In(0));
  if (p->Has(2)) {
    weight = b->Emit("Gather", {p->In(2), target});
    loss = b->Emit("Mul", {loss, weight});
  }
  if (ignores) {
    loss = b->Emit("Where", {ignored, zero, loss});
    weight = b->Emit("Where", {ignored, zero, weight == ir::kNone ? b->ScalarLike(1, p->In(0)) : weight});
  }
  p->node.attrs = Attrs();
  if (reduction == "none") {
    p->node.op = "Identity";
    p->node.inputs = {loss};
    return Status::Ok();
  }
  p->node.inputs = {loss};
  p->node.attrs = IntAttr("keepdims", 0);
  p->node.op = reduction == "sum" ? "ReduceSum" : "ReduceMean";
  if (reduction == "mean" && weight != ir::kNone) {
    p->node.inputs = {b->Emit("ReduceSum", {loss}, IntAttr("keepdims", 0)),
                      b->Emit("ReduceSum", {weight}, IntAttr("keepdims", 0))};
    p->node.attrs = Attrs();
    p->node.op = "Div";
  }
  return Status::Ok();
}

Status ExpandSoftmaxCrossEntropyLoss(Builder* b, Pending* p) {
  if (ops::IsSupported(p->node.op)) return Status::Ok();
  if (!p->Has(0)) return BadInput("has no scores");
  ir::Node log;
  log.op = "LogSoftmax";
  log.name = p->node.name + "/log_prob";
  log.attrs = IntAttr("axis", 1);
  log.inputs = {p->In(0)};
  log.outputs = {p->Used(1) ? p->node.outputs[1] : b->NewValue("log_prob")};
  p->node.inputs[0] = log.outputs[0];
  b->Add(std::move(log));
  if (p->node.outputs[0] == ir::kNone) p->node.outputs[0] = b->NewValue("loss");
  p->node.outputs.resize(1);
  return ExpandNegativeLogLikelihoodLoss(b, p);
}

// Swish_alpha(A) * B
Status ExpandSwiGlu(Builder* b, Pending* p) {
  if (ops::IsSupported(p->node.op)) return Status::Ok();
  if (!p->Has(0) || !p->Has(1)) return BadInput("needs two inputs");
  Attrs alpha;
  alpha.Set("alpha", p->node.attrs.Float("alpha", 1.0F));
  p->node.inputs[0] = b->Emit("Swish", {p->In(0)}, std::move(alpha));
  p->node.attrs = Attrs();
  p->node.op = "Mul";
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
