// Table of domain ai.onnx.ml.
#include "kernels/ml/ml.h"

namespace tenon::kernels::ml {
namespace {

#define KERNEL(op, rule, inputs, name, needs, can, make) constexpr Row k##op[] = {{name, needs, can, make}};
#include "kernels/ml/kernels.inc"
#undef KERNEL

}  // namespace

std::span<const OpKernels> Operators() {
  static const OpKernels operators[] = {
#define KERNEL(op, rule, inputs, name, needs, can, make) {"ai.onnx.ml." #op, rule, k##op, inputs, inputs, 1, 1},
#include "kernels/ml/kernels.inc"
#undef KERNEL
  };
  return operators;
}

}  // namespace tenon::kernels::ml
