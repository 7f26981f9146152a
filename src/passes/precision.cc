#include "passes/precision.h"

namespace tenon::passes {

PrecisionPolicy DefaultPolicy() {
  PrecisionPolicy p;
  p.white = {"Attention", "Conv", "ConvTranspose", "Gemm", "MatMul"};
  p.grey = {"Abs",
            "Add",
            "AveragePool",
            "BiasGelu",
            "Clip",
            "Concat",
            "Div",
            "Elu",
            "Erf",
            "Expand",
            "Flatten",
            "Gather",
            "Gelu",
            "GlobalAveragePool",
            "GlobalMaxPool",
            "HardSwish",
            "HardSigmoid",
            "Identity",
            "LayerNormalization",
            "LeakyRelu",
            "Max",
            "MaxPool",
            "Min",
            "Mish",
            "Mul",
            "Neg",
            "PRelu",
            "Pad",
            "Relu",
            "ReduceMax",
            "ReduceMean",
            "Reshape",
            "Resize",
            "RMSNormalization",
            "Sigmoid",
            "Silu",
            "Slice",
            "Softmax",
            "Split",
            "Squeeze",
            "Sub",
            "Swish",
            "Tanh",
            "Transpose",
            "Unsqueeze",
            "Where"};
  return p;
}

std::vector<std::string_view> PartsOf(std::string_view op) {
  if (op == "FusedConv") return {"FusedConv", "Conv"};
  if (op == "FusedConvTranspose") return {"FusedConvTranspose", "ConvTranspose"};
  if (op == "FusedMatMul") return {"FusedMatMul", "MatMul", "Gemm"};
  if (op == "Attention") return {"Attention", "MatMul", "Softmax"};
  if (op == "FusedAttention") return {"FusedAttention", "Attention", "MatMul", "Softmax"};
  return {op};
}

}  // namespace tenon::passes
