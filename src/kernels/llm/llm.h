// Operators of language models beside attention.
//
//   RotaryEmbedding       pairs of each head turned by the angle of their position; x [batch, heads, seq, dim] or
//                         [batch, seq, heads * dim], cos and sin caches [positions, r/2] with position_ids [batch, seq], or
//                         [batch, seq, r/2] without; r = rotary_embedding_dim, or dim. interleaved: pairs (2i, 2i+1), else (i, i
//                         + r/2)
//   SwiGLU                y = a * sigmoid(alpha * a) * b
//   LinearAttention       a recurrent state S [d_k, d_v] per head: S = exp(g) S + k (x) (beta (v - S^T k)), o = scale * S^T q;
//                         update_rule says which of the decay g and the correction beta take part
//   CausalConvWithState   depthwise causal convolution along time, with the last k - 1 inputs carried from call to call
// The last three compute in f32 for f16 and bf16.
#ifndef TENON_KERNELS_LLM_LLM_H_
#define TENON_KERNELS_LLM_LLM_H_

#include "kernels/kernel.h"

namespace tenon::kernels::llm {

std::span<const OpKernels> Operators();

Status InferRotary(const ShapeArgs& args);
Status InferSwiGlu(const ShapeArgs& args);
Status InferLinearAttention(const ShapeArgs& args);
Status InferCausalConv(const ShapeArgs& args);

Result<std::unique_ptr<Kernel>> MakeRotary(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeSwiGlu(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeLinearAttention(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeCausalConv(const Problem& problem);

}  // namespace tenon::kernels::llm

#endif  // TENON_KERNELS_LLM_LLM_H_
