// Operators that ONNX had on trial in opset 1 and took back; models of that time hold them. (Those that ONNX
// Runtime still has are in upgrade_contrib_math.cc.) And Attention of mixed types.
#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format {

namespace {

Status NeedInput(const Pending& p) {
  return p.Has(0) ? Status::Ok() : BadInput("has no input");
}

// The node becomes `op` of `inputs` without attributes.
Status Become(Pending* p, const char* op, std::vector<ir::ValueId> inputs) {
  p->node.op = op;
  p->node.attrs = Attrs();
  p->node.inputs = std::move(inputs);
  return Status::Ok();
}

// The shape that fills have: attribute `shape`, or the input's shape, or its elements; then `extra_shape`.
Result<ir::ValueId> FillShape(Builder* b, const Pending& p) {
  std::vector<ir::ValueId> parts;
  if (!p.Has(0)) {
    if (!p.node.attrs.Has("shape")) return BadInput("has neither an input nor an attribute 'shape'");
    parts.push_back(b->Ints(p.node.attrs.Ints("shape")));
  } else {
    const bool elements = p.node.attrs.Int("input_as_shape", 0) != 0;
    Attrs to;
    to.Set("to", static_cast<int64_t>(DType::kI64));
    parts.push_back(elements ? b->Emit("Cast", {p.In(0)}, std::move(to)) : b->Emit("Shape", {p.In(0)}));
  }
  if (p.node.attrs.Has("extra_shape")) parts.push_back(b->Ints(p.node.attrs.Ints("extra_shape")));
  if (parts.size() == 1) return parts[0];
  Attrs axis;
  axis.Set("axis", int64_t{0});
  return b->Emit("Concat", std::move(parts), std::move(axis));
}

}  // namespace

Status ExpandDynamicSlice(Builder* /*b*/, Pending* p) {
  p->node.op = "Slice";
  return Status::Ok();
}

Status ExpandConstantFill(Builder* b, Pending* p) {
  TENON_ASSIGN_OR_RETURN(const ir::ValueId shape, FillShape(b, *p));
  const int64_t type = p->node.attrs.Int("dtype", static_cast<int64_t>(DType::kF32));
  Attrs to;
  to.Set("to", type);
  const ir::ValueId value = b->Emit("Cast", {b->Constant(Tensor::Scalar<float>(p->node.attrs.Float("value", 0)))}, std::move(to));
  return Become(p, "Expand", {value, shape});
}

Status ExpandGivenTensorFill(Builder* b, Pending* p) {
  TENON_ASSIGN_OR_RETURN(const ir::ValueId shape, FillShape(b, *p));
  const std::vector<float> values = p->node.attrs.Floats("values");
  return Become(p, "Reshape",
                {b->Constant(Tensor::FromVector<float>(Shape{static_cast<int64_t>(values.size())}, values)), shape});
}

// On trial, MeanVarianceNormalization said by `across_channels` which axes it meant, and could leave the variance alone.
Status MeanVarianceNormTo9(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(NeedInput(*p));
  std::vector<int64_t> axes{0, 2, 3};
  if (p->node.attrs.Int("across_channels", 0) != 0) axes = {0, 1, 2, 3};
  if (p->node.attrs.Int("normalize_variance", 1) == 0) {
    return Become(p, "Sub", {p->In(0), b->Emit("ReduceMean", {p->In(0), b->Ints(axes)})});
  }
  if (!p->node.attrs.Has("axes")) p->node.attrs.Set("axes", axes);
  p->node.attrs.Erase("across_channels");
  p->node.attrs.Erase("normalize_variance");
  return Status::Ok();
}

namespace {

Attrs To(DType t) {
  Attrs a;
  a.Set("to", static_cast<int64_t>(t));
  return a;
}

}  // namespace

// Kernels serve one type: where queries and values differ, or the mask is of a type of its own, all are widened, and the outputs
// narrowed again.
Status AttentionOfOneType(Builder* b, Pending* p) {
  if (!p->Has(0) || !p->Has(2)) return Status::Ok();   // refused by the shape rule
  const DType query = b->value(p->In(0)).dtype, value = b->value(p->In(2)).dtype;
  if (query == DType::kUndefined || value == DType::kUndefined) return Status::Ok();
  const bool wide = query == DType::kF64 || value == DType::kF64;
  const DType type = query == value ? query : wide ? DType::kF64 : DType::kF32;
  for (size_t i = 0; i < 6 && i < p->node.inputs.size(); ++i) {
    if (!p->Has(i)) continue;
    const DType given = b->value(p->In(i)).dtype;
    if (given == type || given == DType::kUndefined || (i == 3 && given == DType::kBool)) continue;
    if (i != 3 && !IsFloat(given)) continue;   // refused by the shape rule
    p->SetIn(i, b->Emit("Cast", {p->In(i)}, To(type)));
  }
  for (size_t i = 0; i < p->node.outputs.size(); ++i) {
    const DType wanted = i == 2 ? value : query;
    const ir::ValueId output = p->node.outputs[i];
    if (output != ir::kNone && wanted != type) After(p, "Cast", {DivertOutput(b, p, i)}, To(wanted), output);
  }
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
