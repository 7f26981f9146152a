// Operators of com.microsoft (written by ONNX Runtime's optimiser and exporters) that have a canonical form here.
#include <numeric>

#include "import/onnx/emit.h"

namespace tenon::import::onnx_format {

using ir::ValueId;

namespace {

void Become(Pending* p, const char* op) {
  p->node.op = op;
}

// SkipLayerNormalization and its simplified form give mean, inverse deviation, and the sum before the norm (output 3).
Status CheckStatistics(const Pending& p) {
  if (p.Used(1) || p.Used(2)) return Unsupported("outputs mean and inv_std_var are not supported");
  return Status::Ok();
}

}  // namespace

// The same operator under the canonical name.
Status MicrosoftSameOp(Builder* /*b*/, Pending* p) {
  p->node.op.erase(0, std::string_view("com.microsoft.").size());
  return Status::Ok();
}

// Gemm, then an activation with attributes activation_alpha and so on.
Status MicrosoftFusedGemm(Builder* b, Pending* p) {
  const std::string activation = p->node.attrs.String("activation", "");
  Attrs of_gemm;
  Attrs of_activation;
  for (const auto& [name, value] : p->node.attrs) {
    if (name.rfind("activation_", 0) == 0) {
      of_activation.Set(name.substr(std::string_view("activation_").size()), value);
    } else if (name != "activation") {
      of_gemm.Set(name, value);
    }
  }
  if (activation.empty()) {
    p->node.attrs = std::move(of_gemm);
    Become(p, "Gemm");
    return Status::Ok();
  }
  if (activation == "Clip") return Unsupported("activation Clip is not supported");
  p->node.inputs = {b->Emit("Gemm", p->node.inputs, std::move(of_gemm))};
  p->node.attrs = std::move(of_activation);
  p->node.op = activation;
  return Status::Ok();
}

namespace {

// transBatch moves axis 0 to the last but one: [m, batch..., k] is [batch..., m, k].
Result<ValueId> BatchFirst(Builder* b, const Pending& p, size_t index, const char* attribute) {
  if (p.node.attrs.Int(attribute, 0) == 0) return p.In(index);
  TENON_ASSIGN_OR_RETURN(const int rank, emit::NeedRank(*b, p, index));
  if (rank < 3) return p.In(index);
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end() - 2, 1);
  perm[perm.size() - 2] = 0;
  perm.back() = rank - 1;
  return emit::Transpose(b, p.In(index), std::move(perm));
}

}  // namespace

// alpha * op(A) * op(B); TransposeMatMul and SparseToDenseMatMul (with a sparse constant A) are the same.
Status MicrosoftFusedMatMul(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  TENON_ASSIGN_OR_RETURN(const ValueId a_matrix, BatchFirst(b, *p, 0, "transBatchA"));
  TENON_ASSIGN_OR_RETURN(const ValueId b_matrix, BatchFirst(b, *p, 1, "transBatchB"));
  Attrs attrs = emit::IntAttr("transA", p->node.attrs.Int("transA", 0));
  attrs.Set("transB", p->node.attrs.Int("transB", 0));
  attrs.Set("alpha", p->node.attrs.Float("alpha", 1));
  emit::Become(b, p, "FusedMatMul", {a_matrix, b_matrix}, std::move(attrs));
  return Status::Ok();
}

// FusedMatMul, then an operator with attributes activation_alpha and so on.
Status MicrosoftFusedMatMulActivation(Builder* b, Pending* p) {
  const std::string activation = p->node.attrs.String("activation", "");
  if (activation.empty()) return BadInput("has no attribute 'activation'");
  Attrs attrs;
  for (const char* name : {"alpha", "beta", "gamma", "axis"}) {
    if (const AttrValue* v = p->node.attrs.Find(std::string("activation_") + name)) attrs.Set(name, *v);
  }
  TENON_RETURN_IF_ERROR(MicrosoftFusedMatMul(b, p));
  const ValueId product = b->Emit(p->node.op, p->node.inputs, p->node.attrs);
  emit::Become(b, p, activation.c_str(), {product}, std::move(attrs));
  return Status::Ok();
}

// X, W, bias
Status MicrosoftGemmFastGelu(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  const ValueId product = b->Emit("MatMul", {p->In(0), p->In(1)});
  p->node.inputs = p->Has(2) ? std::vector{product, p->In(2)} : std::vector{product};
  return MicrosoftFastGelu(b, p);
}

// x + bias, halved along the last axis: left * Gelu(right)
Status MicrosoftBiasSplitGelu(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  const auto halves = emit::Split(b, b->Emit("Add", {p->In(0), p->In(1)}), -1, int64_t{2});
  emit::Become(b, p, "Mul", {halves[0], b->Emit("Gelu", {halves[1]})});
  return Status::Ok();
}

// x + bias + skip
Status MicrosoftBiasAdd(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2}));
  emit::Become(b, p, "Add", {b->Emit("Add", {p->In(0), p->In(1)}), p->In(2)});
  return Status::Ok();
}

Status MicrosoftBiasSoftmax(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  const ValueId scores = b->Emit("Add", {p->In(0), p->In(1)});
  emit::Become(b, p, "Identity", {emit::FlatSoftmax(b, scores, p->node.attrs.Int("axis", 1))});
  return Status::Ok();
}

// data, bias, residual, ratio, training_mode: data + bias + residual at inference; without bias and residual for BitmaskDropout
// (data, ratio, training_mode). The mask, all ones, is not served.
Status MicrosoftDropout(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  const bool biased = p->node.op.find("Bias") != std::string::npos;
  if (p->Used(1)) return Unsupported("output mask is not supported");
  const size_t mode = biased ? 4 : 2;
  if (p->Has(mode)) {
    const auto training = b->ConstInts(p->In(mode));
    if (!training || training->empty() || training->front() != 0) return Unsupported("training mode is not supported");
  }
  ValueId y = p->In(0);
  for (size_t i = 1; biased && i <= 2; ++i) {
    if (p->Has(i)) y = b->Emit("Add", {y, p->In(i)});
  }
  emit::Become(b, p, "Identity", {y});
  return Status::Ok();
}

Status LayerNormToCanonical(Builder* /*b*/, Pending* p) {
  // Files from before opset 17 may name outputs that nothing reads.
  while (p->node.outputs.size() > 1 && !p->Used(p->node.outputs.size() - 1)) p->node.outputs.pop_back();
  return Status::Ok();
}

// x / sqrt(mean(x^2) + epsilon) * scale
Status SimplifiedLayerNorm(Builder* /*b*/, Pending* p) {
  if (p->Used(1)) return Unsupported("output inv_std_var is not supported");
  Become(p, "RMSNormalization");
  p->node.outputs.resize(1);
  return Status::Ok();
}

Status MicrosoftBiasGelu(Builder* b, Pending* p) {
  if (!p->Has(0) || !p->Has(1)) return BadInput("needs an input and a bias");
  p->node.inputs = {b->Emit("Add", {p->In(0), p->In(1)})};
  Become(p, "Gelu");
  return Status::Ok();
}

Status MicrosoftFastGelu(Builder* b, Pending* p) {
  if (!p->Has(0)) return BadInput("has no input");
  if (p->Has(1)) p->node.inputs = {b->Emit("Add", {p->In(0), p->In(1)})};
  p->node.attrs = Attrs();
  p->node.attrs.Set("approximate", std::string("tanh"));
  Become(p, "Gelu");
  return Status::Ok();
}

// x * sigmoid(alpha * x)
Status MicrosoftQuickGelu(Builder* /*b*/, Pending* p) {
  p->node.attrs.Set("alpha", p->node.attrs.Float("alpha", 1.702F));
  Become(p, "Swish");
  return Status::Ok();
}

// Inputs (x, skip, gamma, beta, bias), simplified (x, skip, gamma, bias): norm(x + skip + bias); output 3 is the sum.
Status MicrosoftSkipLayerNorm(Builder* b, Pending* p) {
  const bool simplified = p->node.op.find("Simplified") != std::string::npos;
  if (!p->Has(0) || !p->Has(1) || !p->Has(2)) return BadInput("needs input, skip and gamma");
  TENON_RETURN_IF_ERROR(CheckStatistics(*p));
  const size_t bias = simplified ? 3 : 4;
  const ValueId total = p->Used(3) ? p->node.outputs[3] : b->NewValue("sum");
  const ValueId pair = p->Has(bias) ? b->Emit("Add", {p->In(0), p->In(1)}) : p->In(0);
  ir::Node add;
  add.op = "Add";
  add.name = p->node.name + "/sum";
  add.inputs = {pair, p->Has(bias) ? p->In(bias) : p->In(1)};
  add.outputs = {total};
  b->Add(std::move(add));
  std::vector<ValueId> inputs{total, p->In(2)};
  if (!simplified && p->Has(3)) inputs.push_back(p->In(3));
  const float epsilon = p->node.attrs.Float("epsilon", 1e-12F);
  p->node.attrs = Attrs();
  p->node.attrs.Set("epsilon", epsilon);
  p->node.attrs.Set("axis", int64_t{-1});
  p->node.inputs = std::move(inputs);
  p->node.outputs.resize(1);
  Become(p, simplified ? "RMSNormalization" : "LayerNormalization");
  if (p->node.outputs[0] == ir::kNone) p->node.outputs[0] = b->NewValue("norm");
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
