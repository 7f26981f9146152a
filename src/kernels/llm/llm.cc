// Table of the language model operators.
#include "kernels/llm/llm.h"

#include "kernels/kernel_util.h"

namespace tenon::kernels::llm {
namespace {

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, needs, can, make) {group, {name, needs, can, make}},
#include "kernels/llm/kernels.inc"
#undef KERNEL
};

}  // namespace

std::span<const OpKernels> Operators() {
  static const auto rotary = RowsOf(kTable, "RotaryEmbedding");
  static const auto swiglu = RowsOf(kTable, "SwiGLU");
  static const auto linear = RowsOf(kTable, "LinearAttention");
  static const auto conv = RowsOf(kTable, "CausalConvWithState");
  static const OpKernels operators[] = {
      {"RotaryEmbedding", InferRotary, rotary, 3, 4, 1, 1},
      {"SwiGLU", InferSwiGlu, swiglu, 2, 2, 1, 1},
      {"LinearAttention", InferLinearAttention, linear, 3, 6, 1, 2},
      {"CausalConvWithState", InferCausalConv, conv, 2, 4, 1, 2},
  };
  return operators;
}

}  // namespace tenon::kernels::llm
