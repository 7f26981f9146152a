// Many rows of one sequence against its cache, in tiles of bf16 products: 32 rows by blocks of 64 tokens.
#ifndef TENON_KERNELS_CACHED_ATTENTION_TILES_H_
#define TENON_KERNELS_CACHED_ATTENTION_TILES_H_

#include <cstddef>

#include "kernels/cached_attention/cached_attention.h"
#include "kernels/gemm/bf16_tile.h"

namespace tenon::kernels::cached_attention {

inline constexpr int64_t kTileRows = 32;

/// All heads that share keys, for rows [first, first + rows) of a sequence, rows <= kTileRows.
struct TileJob {
  const Params* params;
  Cache cache;
  const float* q;       ///< of row `first` and the first of these heads; rows q_step apart
  float* y;             ///< likewise, as far apart
  int64_t step;
  int64_t position;     ///< of row `first`
  int64_t rows;
  int64_t heads;
};

/// Bytes of scratch of a thread.
int64_t TileBytes(const Params& params, const gemm::Bf16Kernels& kernels);
void RunTile(const TileJob& job, const Inner& inner, const gemm::Bf16Kernels& kernels, std::byte* scratch);

}  // namespace tenon::kernels::cached_attention

#endif  // TENON_KERNELS_CACHED_ATTENTION_TILES_H_
