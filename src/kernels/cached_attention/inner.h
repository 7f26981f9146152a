// The inner functions of attention over a cache, one table per instruction set. Light, for the ISA files.
#ifndef TENON_KERNELS_CACHED_ATTENTION_INNER_H_
#define TENON_KERNELS_CACHED_ATTENTION_INNER_H_

#include <cstdint>

namespace tenon::kernels::cached_attention {

inline constexpr int64_t kMaxDim = 512;     ///< of a head, for the fast rows
inline constexpr int kHeadsAtOnce = 4;

/// Keys and values of one head group of a layer: block b of the sequence at pool + table[b] * block_elements + offset, in
/// elements of type E: uint16_t for f16, or float.
struct Cache {
  const void* pool;
  const int32_t* table;
  int64_t block_elements, key_offset, value_offset;
  template <typename E>
  const E* Keys(int64_t b) const {
    return static_cast<const E*>(pool) + table[b] * block_elements + key_offset;
  }
  template <typename E>
  const E* Values(int64_t b) const {
    return static_cast<const E*>(pool) + table[b] * block_elements + value_offset;
  }
};

/// One query row against tokens [first, last) for up to kHeadsAtOnce heads that share keys.
struct RowTask {
  Cache cache;
  int64_t first, last;
  int64_t dim;          ///< a multiple of 16, at most kMaxDim
  int heads;
  const float* q;       ///< [heads][dim], turned already
  float scale, softcap;
  float* y;             ///< [heads][dim]
};

/// x[0, dim) of one head: normalised by `norm` (null: not), turned by cos and sin (null: not), to `to`.
struct TurnTask {
  const float* x;
  int64_t dim, half;    ///< 2 * half elements are turned, the rest is copied
  const float *cos, *sin;
  bool interleaved;     ///< pairs (2i, 2i+1), else (i, i + half)
  const float* norm;
  float epsilon;
  float* to;
};

/// Scores of up to 32 rows against a block of 64 tokens become weights, and the online softmax of each row goes on.
struct WeighTask {
  float* scores;             ///< two tiles [32][32]: tokens 0 to 31, then 32 to 63
  float* weights;            ///< [rows][64]
  int64_t rows;
  int64_t position;          ///< of row 0; row r sees tokens up to position + r
  int64_t window;            ///< 0: all of them
  int64_t first_token;       ///< of the block
  float scale, softcap;
  float* max;                ///< [rows]
  float* sum;                ///< [rows][16] parts of it
  float* o;                  ///< [rows][dim], made relative to the new maximum
  int64_t dim;
};

/// o[r][0, 32) += acc[r][0, 32)
struct AddTask {
  const float* acc;          ///< [rows][32]
  int64_t rows;
  float* o;
  int64_t o_step;
};

/// y[r][0, dim) = o[r][0, dim) / sum[r], zeros where nothing was seen
struct DivideTask {
  const float* o;            ///< [rows][dim]
  const float* sum;          ///< [rows][16] parts of it
  int64_t rows, dim;         ///< dim a multiple of 16
  float* y;
  int64_t y_step;
};

inline constexpr float kNever = -3.0e38f;   ///< the score of what is not seen

struct Inner {
  void (*row)(const RowTask& task);        ///< against a cache of f16
  void (*row_f32)(const RowTask& task);    ///< against one of f32
  void (*turn)(const TurnTask& task);
  /// to[i * step] = f16(from[i])
  void (*store)(const float* from, int64_t n, uint16_t* to, int64_t step);
  /// to[i] = from[i], n a multiple of 16
  void (*widen)(const uint16_t* from, int64_t n, float* to);
  void (*weigh)(const WeighTask& task);
  void (*add)(const AddTask& task);
  void (*divide)(const DivideTask& task);
};

extern const Inner kPortable;
#if defined(__x86_64__)
extern const Inner kAvx2;
extern const Inner kAvx512;
#endif

}  // namespace tenon::kernels::cached_attention

#endif  // TENON_KERNELS_CACHED_ATTENTION_INNER_H_
