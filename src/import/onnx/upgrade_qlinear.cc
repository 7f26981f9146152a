// Integer operators of com.microsoft, said with DequantizeLinear, the float operator and QuantizeLinear; the passes that turn
// such patterns into integer kernels serve them as well.
#include "import/onnx/attention_form.h"
#include "import/onnx/emit.h"

namespace tenon::import::onnx_format {

using ir::ValueId;

namespace {

ValueId Dequantize(Builder* b, const Pending& p, size_t first) {
  return b->Emit("DequantizeLinear", {p.In(first), p.In(first + 1), p.In(first + 2)});
}

// p's node becomes the QuantizeLinear of `result`; without a zero point to the type of `like`.
void Quantize(Builder* b, Pending* p, ValueId result, ValueId scale, ValueId zero, ValueId like) {
  Attrs attrs;
  const DType type = b->value(like).dtype;
  if (zero == ir::kNone && type != DType::kUndefined) attrs.Set("output_dtype", static_cast<int64_t>(type));
  emit::Become(b, p, "QuantizeLinear", {result, scale, zero}, std::move(attrs));
}

std::string FloatOp(const std::string& op) {
  const size_t at = op.find("QLinear");
  return op.substr(at + std::string_view("QLinear").size());
}

}  // namespace

// A, A_scale, A_zero, B, B_scale, B_zero, C_scale, C_zero
Status MicrosoftQLinearBinary(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 3, 4, 6}));
  const ValueId result = b->Emit(FloatOp(p->node.op), {Dequantize(b, *p, 0), Dequantize(b, *p, 3)});
  Quantize(b, p, result, p->In(6), p->In(7), p->In(0));
  return Status::Ok();
}

// X, X_scale, X_zero, Y_scale, Y_zero
Status MicrosoftQLinearUnary(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 3}));
  Attrs attrs = p->node.attrs;
  const std::string op = FloatOp(p->node.op);
  ValueId x = Dequantize(b, *p, 0);
  if (op == "Softmax") {
    const bool one_axis = attrs.Int("opset", 13) >= 13;
    const ValueId y = one_axis ? b->Emit("Softmax", {x}, emit::IntAttr("axis", attrs.Int("axis", -1)))
                               : emit::FlatSoftmax(b, x, attrs.Int("axis", 1));
    Quantize(b, p, y, p->In(3), p->In(4), p->In(0));
    return Status::Ok();
  }
  const bool last = attrs.Int("channels_last", 0) != 0;
  attrs.Erase("channels_last");
  int rank = 0;
  if (last) {
    TENON_ASSIGN_OR_RETURN(rank, emit::NeedRank(*b, *p, 0));
    if (rank < 3) return BadInput("input 0 has rank {}; at least 3 is needed", rank);
    x = emit::ToChannelsFirst(b, x, rank);
  }
  ValueId y = b->Emit(op, {x}, std::move(attrs));
  if (last) y = emit::ToChannelsLast(b, y, rank);
  Quantize(b, p, y, p->In(3), p->In(4), p->In(0));
  return Status::Ok();
}

// data, data_scale, data_zero, reduced_scale, reduced_zero
Status MicrosoftQLinearReduceMean(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 3}));
  const std::vector<int64_t> axes = p->node.attrs.Ints("axes");
  const ValueId list = axes.empty() ? ir::kNone : b->Ints(axes);
  const int64_t keep = p->node.attrs.Int("keepdims", 1);
  const ValueId mean = b->Emit("ReduceMean", {Dequantize(b, *p, 0), list}, emit::IntAttr("keepdims", keep));
  Quantize(b, p, mean, p->In(3), p->In(4), p->In(0));
  return Status::Ok();
}

// condition, X, X_scale, X_zero, Y, Y_scale, Y_zero, Z_scale, Z_zero
Status MicrosoftQLinearWhere(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2, 4, 5, 7}));
  const ValueId result = b->Emit("Where", {p->In(0), Dequantize(b, *p, 1), Dequantize(b, *p, 4)});
  Quantize(b, p, result, p->In(7), p->In(8), p->In(1));
  return Status::Ok();
}

// The operator of ONNX with channels_last.
Status MicrosoftQLinearConv(Builder* b, Pending* p) {
  return emit::BecomeChannelsFirst(b, p, "QLinearConv", p->node.attrs.Int("channels_last", 0) != 0);
}

// Y_scale, Y_zero, then X, X_scale, X_zero of each part
Status MicrosoftQLinearConcat(Builder* b, Pending* p) {
  const size_t n = p->node.inputs.size();
  if (n < 5 || n % 3 != 2) return BadInput("has {} inputs; needed are 2 and 3 for each part", n);
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  std::vector<ValueId> parts;
  for (size_t i = 2; i < n; i += 3) {
    TENON_RETURN_IF_ERROR(emit::Need(*p, {i, i + 1}));
    parts.push_back(Dequantize(b, *p, i));
  }
  const ValueId result = b->Emit("Concat", std::move(parts), p->node.attrs);
  Quantize(b, p, result, p->In(0), p->In(1), p->In(2));
  return Status::Ok();
}

// A, a_scale, a_zero, B, b_scale, b_zero, C (int32, scale a_scale*b_scale), y_scale, y_zero; without y_scale the result is float
Status MicrosoftQGemm(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 3, 4}));
  const auto scale_rank = b->Rank(p->In(4));
  if (!scale_rank) return Unsupported("the scale of B must have a known rank");
  Attrs gemm = p->node.attrs;
  Attrs axis;
  axis.Set("axis", int64_t{gemm.Int("transB", 0) != 0 ? 0 : 1});
  std::vector<ValueId> inputs{Dequantize(b, *p, 0), b->Emit("DequantizeLinear", {p->In(3), p->In(4), p->In(5)}, std::move(axis))};
  if (p->Has(6)) {
    Attrs to;
    to.Set("to", static_cast<int64_t>(DType::kF32));
    const ValueId scale = b->Emit("Mul", {p->In(1), p->In(4)});
    inputs.push_back(b->Emit("Mul", {b->Emit("Cast", {p->In(6)}, std::move(to)), scale}));
  }
  if (!p->Has(7)) {
    p->node.op = "Gemm";
    p->node.inputs = std::move(inputs);
    return Status::Ok();
  }
  Quantize(b, p, b->Emit("Gemm", std::move(inputs), std::move(gemm)), p->In(7), p->In(8), p->In(0));
  return Status::Ok();
}

namespace {

// float(MatMulInteger(product)) * a_scale * b_scale
ValueId ScaledProduct(Builder* b, std::vector<ValueId> product, ValueId a_scale, ValueId b_scale) {
  const ValueId sums = emit::Cast(b, b->Emit("MatMulInteger", std::move(product)), DType::kF32);
  return b->Emit("Mul", {sums, b->Emit("Mul", {a_scale, b_scale})});
}

// p's node becomes `product`, with the bias added where there is one.
void BecomeBiased(Builder* b, Pending* p, ValueId product, ValueId bias) {
  emit::Become(b, p, bias == ir::kNone ? "Identity" : "Add",
               bias == ir::kNone ? std::vector{product} : std::vector{product, bias});
}

}  // namespace

// A (float), B, b_scale, b_zero, bias
Status MicrosoftDynamicQuantizeMatMul(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2}));
  ir::Node quantize;
  quantize.op = "DynamicQuantizeLinear";
  quantize.name = p->node.name + "/quantize";
  quantize.inputs = {p->In(0)};
  quantize.outputs = {b->NewValue("a"), b->NewValue("a_scale"), b->NewValue("a_zero")};
  const std::vector<ValueId> a = quantize.outputs;
  b->Add(std::move(quantize));
  BecomeBiased(b, p, ScaledProduct(b, {a[0], p->In(1), a[2], p->In(3)}, a[1], p->In(2)), p->In(4));
  return Status::Ok();
}

// A, B, a_scale, b_scale, a_zero, b_zero, bias
Status MicrosoftMatMulIntegerToFloat(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2, 3}));
  BecomeBiased(b, p, ScaledProduct(b, {p->In(0), p->In(1), p->In(4), p->In(5)}, p->In(2), p->In(3)), p->In(6));
  return Status::Ok();
}

// input, weight, bias, input_scale, weight_scale, mask_index, input_zero, weight_zero, past
Status MicrosoftQAttention(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2, 3, 4}));
  for (const char* name : {"do_rotary", "past_present_share_buffer"}) {
    if (p->node.attrs.Int(name, 0) != 0) return Unsupported("{} is not supported", name);
  }
  const ValueId product = ScaledProduct(b, {p->In(0), p->In(1), p->In(6), p->In(7)}, p->In(3), p->In(4));
  return SelfAttention(b, p, b->Emit("Add", {product, p->In(2)}), p->In(5), p->In(8), ir::kNone);
}

// X, W, R, B, sequence_lens, initial_h, initial_c, P, W_scale, W_zero, R_scale, R_zero. W and R are [dirs, in, 4 * hidden],
// their scales [dirs] or [dirs, 4 * hidden]. X and the hidden state stay floats, where ONNX Runtime quantises them at each step.
Status MicrosoftDynamicQuantizeLstm(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2, 8, 10}));
  const auto weights = [&](size_t at, size_t scale) -> Result<ValueId> {
    TENON_ASSIGN_OR_RETURN(const int rank, emit::NeedRank(*b, *p, scale));
    const auto wide = [&](ValueId v) { return emit::Reshape(b, v, {0, 1, rank == 2 ? -1 : 1}); };
    ValueId w = emit::Cast(b, p->In(at), DType::kF32);
    if (p->Has(scale + 1)) w = b->Emit("Sub", {w, wide(emit::Cast(b, p->In(scale + 1), DType::kF32))});
    return emit::Transpose(b, b->Emit("Mul", {w, wide(p->In(scale))}), {0, 2, 1});
  };
  TENON_ASSIGN_OR_RETURN(const ValueId w, weights(1, 8));
  TENON_ASSIGN_OR_RETURN(const ValueId r, weights(2, 10));
  p->node.inputs = {p->In(0), w, r, p->In(3), p->In(4), p->In(5), p->In(6), p->In(7)};
  p->node.op = "LSTM";
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
