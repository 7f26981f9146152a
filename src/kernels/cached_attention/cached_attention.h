// Causal attention of language models over a cache of keys and values, and the angles of its rotary embedding.
//
//   RopeTable(tokens) -> table
//     tokens [.., n] of any integer type (only the shape counts); table [.., n, 2 h] f32: cos, then sin of position * freqs[i],
//     each times `mscale`; attribute `freqs` [h]
//   CachedAttention(q, k?, v?, table?, q_norm?, k_norm?) -> y
//     q [.., n, heads * head_dim], k and v [.., n, kv_heads * head_dim]; or k and v absent and q all three side by side.
//     y like q. Each head of q and k is normalised (RMS, `epsilon`, weights q_norm and k_norm [head_dim]) where those are given,
//     and its first 2 h elements turned by `table` (attribute `interleaved`: pairs (2i, 2i+1), else (i, i + h)). Then
//     softmax(softcap(scale * q k^T)) v over the tokens up to each row's own, the last `window` of them when that is > 0.
//     Attributes: heads, kv_heads, head_dim, scale (default 1/sqrt(head_dim)), softcap, window, layer, interleaved, epsilon,
//     cache (type of the keys and values that are kept: "f16", "bf16", "q8_0", or "f32", and then products of many rows are of
//     f32 as well), exact (1: they are with the other types too). Keys and values pass through that type before they are used.
//
// Without a cache (RunArgs::kv null) each [n] is a sequence of its own from position 0. With one, rows and positions are those of
// the KvStep; keys and values of this step are stored in its pool.
#ifndef TENON_KERNELS_CACHED_ATTENTION_CACHED_ATTENTION_H_
#define TENON_KERNELS_CACHED_ATTENTION_CACHED_ATTENTION_H_

#include <span>

#include "kernels/cached_attention/inner.h"
#include "kernels/kernel.h"
#include "kernels/kv_step.h"

namespace tenon::kernels::cached_attention {

struct Params {
  int64_t heads = 0, kv_heads = 0, dim = 0, layer = 0, window = 0;
  float scale = 1, softcap = 0, epsilon = 1e-6f;
  bool interleaved = false;
  KvType cache = KvType::kF16;
  bool exact = false;  ///< rows are not rounded to bf16, however many they are
};
Result<Params> ParseParams(const Attrs& attrs);

/// Where the rows of q, k and v are, whichever form the inputs have.
struct Rows {
  int64_t n = 0;  ///< rows
  int64_t batch = 0;  ///< sequences, without a cache
  const float *q, *k, *v;
  int64_t q_step, kv_step;
  const float* table;  ///< null: no rotary embedding
  int64_t half;  ///< of the table's row
};
Result<Rows> ResolveRows(const Params& p, const RunArgs& args);

/// Sequence of a step, checked against the pool and the rows.
Status CheckStep(const Params& p, const KvStep& step, int64_t rows);

Status InferRopeTable(const ShapeArgs& args);
Status InferCachedAttention(const ShapeArgs& args);

Result<std::unique_ptr<Kernel>> MakeRopeTable(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem);
Refusal CanFast(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakePortable(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeAvx512(const Problem& problem);

std::span<const OpKernels> Operators();

}  // namespace tenon::kernels::cached_attention

#endif  // TENON_KERNELS_CACHED_ATTENTION_CACHED_ATTENTION_H_
