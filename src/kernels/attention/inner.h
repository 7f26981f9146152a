// Attention after all shapes are resolved, and the inner functions of its f32 rows. Light, for the ISA files.
#ifndef TENON_KERNELS_ATTENTION_INNER_H_
#define TENON_KERNELS_ATTENTION_INNER_H_

#include <cstdint>

namespace tenon::kernels::attention {

/// Steps in elements; the innermost axis (dim) is contiguous.
struct Strides {
  int64_t batch = 0, head = 0, seq = 0;
};

struct Core {
  int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0, dim = 0, v_dim = 0;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* y = nullptr;
  Strides q_step, k_step, v_step, y_step;

  const void* mask = nullptr;          ///< null: none
  bool mask_is_bool = false;           ///< else of q's type, additive
  int64_t mask_batch = 0, mask_head = 0, mask_seq = 0, mask_key = 0;  ///< 0 where broadcast
  int64_t mask_len = 0;                ///< keys from here on are masked (k_len without a mask)

  float scale = 1, softcap = 0;
  bool causal = false;                 ///< key j visible to query i iff j <= i + offset
  int64_t left_window = -1, right_window = -1;
  int64_t offset = 0;                  ///< position of query 0 among the keys
  const int64_t* kv_lens = nullptr;    ///< valid keys of each batch; then offset is kv_lens[b] - q_len
};

/// Keys [first, last) that query `i` of batch `b` may see by position, before the mask.
struct KeyRange {
  int64_t first, last;
};
static inline KeyRange VisibleKeys(const Core& core, int64_t b, int64_t i) {
  int64_t first = 0, last = core.mask_len < core.k_len ? core.mask_len : core.k_len, at = i + core.offset;
  if (core.kv_lens != nullptr) {
    if (core.kv_lens[b] < last) last = core.kv_lens[b];
    at = i + core.kv_lens[b] - core.q_len;
  }
  if (core.causal && at + 1 < last) last = at + 1;
  if (core.right_window >= 0 && at + core.right_window + 1 < last) last = at + core.right_window + 1;
  if (core.left_window >= 0 && at - core.left_window > first) first = at - core.left_window;
  if (last < first) last = first;
  return {first, last};
}

inline constexpr int64_t kFewRows = 8;       ///< up to so many queries on one key head go unpacked
inline constexpr int64_t kQueryBlock = 48;   ///< queries of one task
inline constexpr int64_t kKeyBlock = 256;    ///< keys between two rescalings
inline constexpr int64_t kWholeKeys = 4096;  ///< up to so many keys are packed once for all queries of a head

/// Scratch of one thread, in floats: `keys` packed keys, `values` packed values, `work` the rest.
struct ScratchSizes {
  int64_t keys, values, work;
};

struct AttentionInner {
  ScratchSizes (*scratch)(const Core& core);
  /// Packs keys [0, count) and, where v_dim asks for it, values; rows `k_seq` and `v_seq` apart.
  void (*pack)(const Core& core, const float* k, const float* v, int64_t count, float* keys, float* values);
  /// Queries [first, first + rows) of one head, rows <= kQueryBlock. `packed`: keys and values hold the whole head, else they are
  /// packed here block by block.
  void (*block)(const Core& core, int64_t b, int64_t h, int64_t first, int64_t rows, bool packed, float* keys, float* values,
                float* work);
  /// All q_len queries of all heads that share key head `g`, for few queries: reads keys and values once, unpacked.
  void (*few)(const Core& core, int64_t b, int64_t g, float* work);
  /// Softmax over the scores s[0, n) of query `i` with keys [0, n), after softcap, mask (f32 or bool) and visibility. In place.
  void (*softmax)(const Core& core, int64_t b, int64_t h, int64_t i, int64_t n, float* s);
};
extern const AttentionInner kAttentionAvx2;
extern const AttentionInner kAttentionAvx512;

}  // namespace tenon::kernels::attention

#endif  // TENON_KERNELS_ATTENTION_INNER_H_
