// Scaled dot-product attention: the ONNX operator "Attention" (opset 25) and the internal "FusedAttention" that passes build.
//
//   s[b,h,i,j] = scale * sum_d q[b,h,i,d] * k[b,g,j,d]      g = h / (num_heads / kv_num_heads)
//   s          = softcap * tanh(s / softcap)                when softcap > 0
//   p[b,h,i,:] = softmax over the visible j of (s + mask)   a row without visible keys, or all -inf, gives zeros
//   y[b,h,i,e] = sum_j p[b,h,i,j] * v[b,g,j,e]
//
// FusedAttention(q, k?, v?, mask?) -> y
//   Each of q, k, v has rank 3 or 4 of its own:
//     rank 3  [batch, seq, heads * dim]   what the linear layers give: the Reshape and Transpose of an export fall away
//     rank 4  [batch, heads, seq, dim]
//   k and v absent: q is packed, [batch, seq, (num_heads + 2 * kv_num_heads) * dim], all query heads, then key heads, then value
//     heads. (ViT, SVTR of PP-OCR: Linear -> Reshape [b,s,3,h,d] -> Transpose (2,0,3,1,4) -> Gather 0, 1, 2: the Linear's
//     output.)
//   k alone is never a transposed matrix: feed the value before the export's Transpose to [b,h,d,s].
//   mask: additive (the type of q) or bool (true: attend), broadcastable to [batch, num_heads, q_seq, k_seq] as NumPy does.
//     (BERT: Mul(Sub(1, mask), -10000) as [batch, 1, 1, k_seq].)
//   Attributes:
//     num_heads (int, required), kv_num_heads (int, default num_heads; num_heads is a multiple of it)
//     scale (float, default 1/sqrt(dim)): fold an export's Div by sqrt(d), or Muls on q and k, into it
//     softcap (float, default 0: off)
//     is_causal (int): 0 none; 1 key j is visible to query i iff j <= i; 2 iff j <= i + k_seq - q_seq (queries are the last ones)
//     out_rank (int, default rank of q): 3 gives [batch, q_seq, num_heads * v_dim], 4 gives [batch, num_heads, q_seq, v_dim]
//   f32 and bf16 have fast rows (bf16: products of bf16 with f32 sums, probabilities rounded to bf16), f16 goes through f32, f64
//   runs by the reference.
//
// Attention: inputs Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen?; outputs Y, present_key?, present_value?,
//   qk_matmul_output?; attributes as in ONNX. nonpad_kv_seqlen values outside [0, k_seq] are errors.
#ifndef TENON_KERNELS_ATTENTION_ATTENTION_H_
#define TENON_KERNELS_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <span>

#include "kernels/attention/inner.h"
#include "kernels/kernel.h"

namespace tenon::kernels::attention {

struct AttentionParams {
  bool fused = false;  ///< FusedAttention, else Attention
  int64_t heads = 0;  ///< 0: from rank-4 inputs
  int64_t kv_heads = 0;  ///< 0: from rank-4 inputs, or as `heads`
  float scale = 0;  ///< 0 with has_scale == false: 1/sqrt(dim)
  bool has_scale = false;
  float softcap = 0;
  int causal = 0;  ///< 0, 1 or 2 as in is_causal of FusedAttention; Attention has 0 and 1
  int64_t left_window = -1, right_window = -1;
  int qk_output_mode = 0;
  int out_rank = 0;  ///< 0: rank of q
};

Result<AttentionParams> ParseAttention(std::string_view op, const Attrs& attrs);

/// Sizes and strides from shapes alone, all checked; kBadInput with what is wrong.
Result<Core> ResolveShapes(const AttentionParams& params, std::span<const View> in);
/// Bytes for past and new keys and values laid end to end, when they are not outputs; 0 when there is no past.
size_t PresentBytes(const Core& core, std::span<const View> in, bool present_key, bool present_value);
/// ResolveShapes plus pointers; takes the outputs, joins past and new keys and values (into outputs or `spare`).
Result<Core> Resolve(const AttentionParams& params, const RunArgs& args, std::byte* spare);
Status RunReference(const AttentionParams& params, const Core& core, const RunArgs& args);

/// q, k, v of bf16; mask of bf16 or bool.
Refusal CanBf16(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Amx(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Avx512Bf16(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Avx512(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Avx2(const Problem& problem);

std::span<const OpKernels> Operators();

}  // namespace tenon::kernels::attention

#endif  // TENON_KERNELS_ATTENTION_ATTENTION_H_
