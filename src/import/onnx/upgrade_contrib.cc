// Operators of com.microsoft (written by ONNX Runtime's optimiser and exporters) that have a canonical form here.
#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format {

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

Status MicrosoftFusedMatMul(Builder* b, Pending* p) {
  if (p->node.attrs.Int("transBatchA", 0) != 0 || p->node.attrs.Int("transBatchB", 0) != 0) {
    return Unsupported("transBatchA and transBatchB are not supported");
  }
  p->node.attrs.Erase("transBatchA");
  p->node.attrs.Erase("transBatchB");
  return MicrosoftSameOp(b, p);
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
  const ir::ValueId total = p->Used(3) ? p->node.outputs[3] : b->NewValue("sum");
  const ir::ValueId pair = p->Has(bias) ? b->Emit("Add", {p->In(0), p->In(1)}) : p->In(0);
  ir::Node add;
  add.op = "Add";
  add.name = p->node.name + "/sum";
  add.inputs = {pair, p->Has(bias) ? p->In(bias) : p->In(1)};
  add.outputs = {total};
  b->Add(std::move(add));
  std::vector<ir::ValueId> inputs{total, p->In(2)};
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
