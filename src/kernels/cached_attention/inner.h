// The inner functions of attention over a cache, one table per instruction set. Light, for the ISA files.
#ifndef TENON_KERNELS_CACHED_ATTENTION_INNER_H_
#define TENON_KERNELS_CACHED_ATTENTION_INNER_H_

#include <cstddef>
#include <cstdint>

#include "kernels/kv_type.h"

namespace tenon::kernels::cached_attention {

inline constexpr int64_t kMaxDim = 512;     ///< of a head, for the fast rows
inline constexpr int kHeadsAtOnce = 4;
inline constexpr float kLeastScale = 1e-30f;   ///< of q8_0; up to here, where f16 has 0 anyway, the block is zeros

/// Elements of a cache, beside float.
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
struct Q8 {
  int8_t number;
};

/// Keys and values of one head group of a layer, as kv_step.h has them: block b of the sequence at pool + table[b] * block_bytes
/// + offset.
struct Cache {
  std::byte* pool;
  const int32_t* table;
  int64_t block_bytes, key_offset, value_offset;
  std::byte* Keys(int64_t b) const { return pool + table[b] * block_bytes + key_offset; }
  std::byte* Values(int64_t b) const { return pool + table[b] * block_bytes + value_offset; }
};

/// One query row against tokens [first, last) for up to kHeadsAtOnce heads that share keys.
struct RowTask {
  Cache cache;
  int64_t first, last;
  int64_t fetch_end;    ///< blocks up to this token are fetched ahead: who comes next reads behind `last`
  int64_t dim;          ///< a multiple of 16, at most kMaxDim
  int heads;
  const float* q;       ///< [heads][dim], turned already
  float scale, softcap;
  float* y;             ///< heads lie y_step apart
  int64_t y_step;
  bool part;            ///< y is [dim] sums that are not divided yet, relative to e^max, then max, and the sum to divide by
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

/// The keys or the values that one block holds of one head.
struct Kept {
  std::byte* data;
  int64_t dim;               ///< of the head, a multiple of 16; of 32 with q8_0
  bool turned;               ///< keys: element d of token t at d * 64 + t; values: at t * dim + d
};

/// What reads and writes a cache of one type.
struct Access {
  void (*row)(const RowTask& task);
  /// x[0, dim) becomes token t.
  void (*store)(const float* x, const Kept& kept, int64_t t);
  /// The first `tokens` tokens as floats, as they lie there. Keys are read of all 64, whatever those behind them hold.
  void (*load)(const Kept& kept, int64_t tokens, float* to);
};

struct Inner {
  Access cache[kKvTypes];    ///< by KvType
  void (*turn)(const TurnTask& task);
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
