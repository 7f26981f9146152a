// What a step of a language model is told beside its tensors: which rows belong to which sequence, and where the keys and values
// of each lie. Plain data; who owns the memory is somebody else's matter (runtime/kv_pool.h).
//
// The pool is an array of blocks of `kKvBlockTokens` tokens each. A block holds, per layer, keys
// [kv_heads][head_dim][kKvBlockTokens], then values [kv_heads][kKvBlockTokens][head_dim]: keys are turned so that the scores of
// many tokens are one product. With q8_0 the elements of a head are followed by their scales, for keys and values alike
// [head_dim / 32][kKvBlockTokens] f16.
#ifndef TENON_KERNELS_KV_STEP_H_
#define TENON_KERNELS_KV_STEP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "kernels/kv_type.h"

namespace tenon::kernels {

/// Tokens of a block, everywhere.
inline constexpr int64_t kKvBlockTokens = 64;

const char* KvTypeName(KvType type);
/// "f16", "bf16", "f32" or "q8_0", for heads of this size. kUsage for another name, or a head that is no whole number of blocks.
Result<KvType> ParseKvType(std::string_view name, int64_t head_dim);

/// What a cache keeps of every token.
struct KvShape {
  int64_t layers = 0, kv_heads = 0, head_dim = 0;
  KvType type = KvType::kF16;

  /// Keys of one head in one layer of a block, or its values.
  int64_t head_bytes() const {
    const int64_t elements = head_dim * kKvBlockTokens;
    switch (type) {
      case KvType::kF32: return elements * 4;
      case KvType::kQ8_0: return elements + elements / kQ8Block * 2;
      default: return elements * 2;
    }
  }
  int64_t block_bytes() const { return 2 * layers * kv_heads * head_bytes(); }
  int64_t token_bytes() const { return block_bytes() / kKvBlockTokens; }
};

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
  KvShape shape;
  std::span<const KvSequence> sequences;
  std::span<const int32_t> output_rows;   ///< rows of the step whose logits are wanted

  std::byte* Keys(int64_t block, int64_t layer, int64_t head) const {
    return pool + block * shape.block_bytes() + (2 * layer * shape.kv_heads + head) * shape.head_bytes();
  }
  std::byte* Values(int64_t block, int64_t layer, int64_t head) const {
    return Keys(block, layer, head) + shape.kv_heads * shape.head_bytes();
  }
};

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_KV_STEP_H_
