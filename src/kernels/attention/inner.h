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

}  // namespace tenon::kernels::attention

#endif  // TENON_KERNELS_ATTENTION_INNER_H_
