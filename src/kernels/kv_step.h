// What a step of a language model is told beside its tensors: which rows belong to which sequence, and where the keys and values
// of each lie. Plain data; who owns the memory is somebody else's matter (runtime/kv_pool.h).
//
// The pool is an array of blocks of `block_tokens` tokens each. A block holds, per layer, keys
// [kv_heads][head_dim][block_tokens], then values [kv_heads][block_tokens][head_dim], as f16 or f32: keys are turned so that the
// scores of many tokens are one product.
#ifndef TENON_KERNELS_KV_STEP_H_
#define TENON_KERNELS_KV_STEP_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon::kernels {

/// Tokens of a block, everywhere.
inline constexpr int64_t kKvBlockTokens = 64;

struct KvSequence {
  int64_t first_row = 0;            ///< among the rows of this step
  int64_t rows = 0;                 ///< tokens of this step
  int64_t past = 0;                 ///< tokens that the pool holds already
  const int32_t* blocks = nullptr;  ///< block of tokens [64 i, 64 i + 64)
  int64_t num_blocks = 0;
};

struct KvStep {
  std::byte* pool = nullptr;
  int64_t num_blocks = 0;           ///< in the pool
  int64_t layers = 0, kv_heads = 0, head_dim = 0;
  bool f32 = false;                 ///< elements are float, else f16 as uint16_t
  std::span<const KvSequence> sequences;
  std::span<const int32_t> output_rows;   ///< rows of the step whose logits are wanted

  /// Elements of one layer of a block, keys or values alone, and of a block.
  int64_t half_layer() const { return kv_heads * head_dim * kKvBlockTokens; }
  int64_t block_elements() const { return 2 * layers * half_layer(); }
  /// `E` is the type of the elements.
  template <typename E>
  E* Keys(int64_t block, int64_t layer, int64_t head) const {
    return reinterpret_cast<E*>(pool) + block * block_elements() + 2 * layer * half_layer() + head * head_dim * kKvBlockTokens;
  }
  template <typename E>
  E* Values(int64_t block, int64_t layer, int64_t head) const {
    return Keys<E>(block, layer, head) + half_layer();
  }
};

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_KV_STEP_H_
