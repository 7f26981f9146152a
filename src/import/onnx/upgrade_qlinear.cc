// Integer operators of com.microsoft, said with DequantizeLinear, the float operator and QuantizeLinear; the passes that turn
// such patterns into integer kernels serve them as well.
#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format {

namespace {

Status NeedInputs(const Pending& p, std::initializer_list<size_t> which) {
  for (size_t i : which) {
    if (!p.Has(i)) return BadInput("input {} is missing", i);
  }
  return Status::Ok();
}

ir::ValueId Dequantize(Builder* b, const Pending& p, size_t first) {
  return b->Emit("DequantizeLinear", {p.In(first), p.In(first + 1), p.In(first + 2)});
}

// The pending node becomes the QuantizeLinear of `result`.
void Quantize(Pending* p, ir::ValueId result, ir::ValueId scale, ir::ValueId zero) {
  p->node.op = "QuantizeLinear";
  p->node.attrs = Attrs();
  p->node.inputs = {result, scale, zero};
}

std::string FloatOp(const std::string& op) {
  const size_t at = op.find("QLinear");
  return op.substr(at + std::string_view("QLinear").size());
}

}  // namespace

// A, A_scale, A_zero, B, B_scale, B_zero, C_scale, C_zero
Status MicrosoftQLinearBinary(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(NeedInputs(*p, {0, 1, 3, 4, 6}));
  const ir::ValueId result = b->Emit(FloatOp(p->node.op), {Dequantize(b, *p, 0), Dequantize(b, *p, 3)});
  Quantize(p, result, p->In(6), p->In(7));
  return Status::Ok();
}

// X, X_scale, X_zero, Y_scale, Y_zero
Status MicrosoftQLinearUnary(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(NeedInputs(*p, {0, 1, 3}));
  Attrs attrs = p->node.attrs;
  if (attrs.Int("channels_last", 0) != 0) return Unsupported("channels_last is not supported");
  attrs.Erase("channels_last");
  if (FloatOp(p->node.op) == "Softmax") {
    if (attrs.Int("opset", 13) < 13) {
      const auto rank = b->Rank(p->In(0));
      const int64_t axis = attrs.Int("axis", 1);
      if (!rank || (axis != -1 && axis != *rank - 1))
        return Unsupported("softmax of opset < 13 over several axes is not supported");
    }
    attrs.Erase("opset");
  }
  const ir::ValueId result = b->Emit(FloatOp(p->node.op), {Dequantize(b, *p, 0)}, std::move(attrs));
  Quantize(p, result, p->In(3), p->In(4));
  return Status::Ok();
}

// Y_scale, Y_zero, then X, X_scale, X_zero of each part
Status MicrosoftQLinearConcat(Builder* b, Pending* p) {
  const size_t n = p->node.inputs.size();
  if (n < 5 || n % 3 != 2) return BadInput("has {} inputs; needed are 2 and 3 for each part", n);
  TENON_RETURN_IF_ERROR(NeedInputs(*p, {0}));
  std::vector<ir::ValueId> parts;
  for (size_t i = 2; i < n; i += 3) {
    TENON_RETURN_IF_ERROR(NeedInputs(*p, {i, i + 1}));
    parts.push_back(Dequantize(b, *p, i));
  }
  const ir::ValueId result = b->Emit("Concat", std::move(parts), p->node.attrs);
  Quantize(p, result, p->In(0), p->In(1));
  return Status::Ok();
}

// A, a_scale, a_zero, B, b_scale, b_zero, C (int32, scale a_scale*b_scale), y_scale, y_zero; without y_scale the result is float
Status MicrosoftQGemm(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(NeedInputs(*p, {0, 1, 3, 4}));
  const auto scale_rank = b->Rank(p->In(4));
  if (!scale_rank) return Unsupported("the scale of B must have a known rank");
  Attrs gemm = p->node.attrs;
  Attrs axis;
  axis.Set("axis", int64_t{gemm.Int("transB", 0) != 0 ? 0 : 1});
  std::vector<ir::ValueId> inputs{Dequantize(b, *p, 0),
                                  b->Emit("DequantizeLinear", {p->In(3), p->In(4), p->In(5)}, std::move(axis))};
  if (p->Has(6)) {
    Attrs to;
    to.Set("to", static_cast<int64_t>(DType::kF32));
    const ir::ValueId scale = b->Emit("Mul", {p->In(1), p->In(4)});
    inputs.push_back(b->Emit("Mul", {b->Emit("Cast", {p->In(6)}, std::move(to)), scale}));
  }
  if (!p->Has(7)) {
    p->node.op = "Gemm";
    p->node.inputs = std::move(inputs);
    return Status::Ok();
  }
  Quantize(p, b->Emit("Gemm", std::move(inputs), std::move(gemm)), p->In(7), p->In(8));
  return Status::Ok();
}

namespace {

// y = float(MatMulInteger(a, b)) * a_scale * b_scale + bias
void ScaledProduct(Builder* b, Pending* p, std::vector<ir::ValueId> product, ir::ValueId a_scale, ir::ValueId b_scale,
                   ir::ValueId bias) {
  Attrs to;
  to.Set("to", static_cast<int64_t>(DType::kF32));
  const ir::ValueId sums = b->Emit("Cast", {b->Emit("MatMulInteger", std::move(product))}, std::move(to));
  const ir::ValueId scale = b->Emit("Mul", {a_scale, b_scale});
  p->node.attrs = Attrs();
  p->node.op = bias == ir::kNone ? "Mul" : "Add";
  p->node.inputs = bias == ir::kNone ? std::vector{sums, scale} : std::vector{b->Emit("Mul", {sums, scale}), bias};
}

}  // namespace

// A (float), B, b_scale, b_zero, bias
Status MicrosoftDynamicQuantizeMatMul(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(NeedInputs(*p, {0, 1, 2}));
  ir::Node quantize;
  quantize.op = "DynamicQuantizeLinear";
  quantize.name = p->node.name + "/quantize";
  quantize.inputs = {p->In(0)};
  quantize.outputs = {b->NewValue("a"), b->NewValue("a_scale"), b->NewValue("a_zero")};
  const std::vector<ir::ValueId> a = quantize.outputs;
  b->Add(std::move(quantize));
  ScaledProduct(b, p, {a[0], p->In(1), a[2], p->In(3)}, a[1], p->In(2), p->In(4));
  return Status::Ok();
}

// A, B, a_scale, b_scale, a_zero, b_zero, bias
Status MicrosoftMatMulIntegerToFloat(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(NeedInputs(*p, {0, 1, 2, 3}));
  ScaledProduct(b, p, {p->In(0), p->In(1), p->In(4), p->In(5)}, p->In(2), p->In(3), p->In(6));
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
