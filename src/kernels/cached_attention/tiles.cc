#include "kernels/cached_attention/tiles.h"

#include <algorithm>

#include "kernels/gemm/gemm.h"

namespace tenon::kernels::cached_attention {
namespace {

constexpr int64_t kSumParts = 16;

int64_t Align(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Scratch of a thread, part by part, in bytes.
struct Parts {
  int64_t q, o, max, sum, wide, narrow, keys, values, scores, weights, a, all;
  Parts(const Params& p, const gemm::Bf16Kernels& kernels) {
    const int64_t heads = p.heads / p.kv_heads, element = kernels.a_f32 ? 4 : 2, block = p.dim * kKvBlockTokens;
    q = 0;
    o = q + Align(heads * kTileRows * p.dim * element + 64);
    max = o + Align(heads * kTileRows * p.dim * 4);
    sum = max + Align(heads * kTileRows * 4);
    wide = sum + heads * kTileRows * kSumParts * 4;
    narrow = wide + Align(block * 4);
    keys = narrow + Align(block * 2);
    values = keys + Align(block * 2);
    scores = values + Align(block * 2);
    weights = scores + 2 * kTileRows * 32 * 4;
    a = weights + kTileRows * kKvBlockTokens * 4;
    all = a + Align(kTileRows * kKvBlockTokens * element + 64);
  }
};

// As many rows at once as the instruction set has.
void Multiply(const gemm::Bf16Kernels& kernels, const std::byte* a, int64_t depth, const uint16_t* b, int64_t rows, float* acc) {
  const int64_t element = kernels.a_f32 ? 4 : 2;
  const gemm::RowTiles cut(rows, kernels.max_rows);
  for (int64_t i = 0; i < cut.count; ++i) {
    const int64_t first = cut.first(i);
    kernels.tile(
        {a + first * depth * element, depth, nullptr, 1, depth / 32, b, acc + first * gemm::kBf16Panel, cut.rows(i), false});
  }
}

}  // namespace

int64_t TileBytes(const Params& params, const gemm::Bf16Kernels& kernels) {
  return Parts(params, kernels).all;
}

void RunTile(const TileJob& job, const Inner& inner, const gemm::Bf16Kernels& kernels, std::byte* scratch) {
  const Params& p = *job.params;
  const Parts parts(p, kernels);
  const int64_t element = kernels.a_f32 ? 4 : 2, dim = p.dim;
  const auto floats = [&](int64_t at) { return reinterpret_cast<float*>(scratch + at); };
  const auto halves = [&](int64_t at) { return reinterpret_cast<uint16_t*>(scratch + at); };
  float *o = floats(parts.o), *max = floats(parts.max), *sum = floats(parts.sum), *scores = floats(parts.scores);
  const int64_t all_rows = job.heads * kTileRows;
  std::fill(o, o + all_rows * dim, 0.0f);
  std::fill(max, max + all_rows, kNever);
  std::fill(sum, sum + all_rows * kSumParts, 0.0f);
  for (int64_t h = 0; h < job.heads; ++h) {
    for (int64_t r = 0; r < job.rows; ++r) {
      kernels.convert(job.q + r * job.step + h * dim, true, dim, scratch + parts.q + (h * kTileRows + r) * dim * element, dim);
    }
  }
  const int64_t last = job.position + job.rows;
  const int64_t first = p.window > 0 ? std::max<int64_t>(0, job.position + 1 - p.window) : 0;
  for (int64_t b = first / kKvBlockTokens; b * kKvBlockTokens < last; ++b) {
    const int64_t tokens = std::min(kKvBlockTokens, last - b * kKvBlockTokens);
    // Tokens that are not there yet count as zeros: what lies in the block behind them may be anything.
    const auto load = [&](const Kept& kept, int64_t k, int64_t n, int64_t columns, int64_t to) {
      const int64_t k_stride = kept.turned ? kKvBlockTokens : dim, depth = (k + 31) / 32 * 32;
      const auto* narrow = reinterpret_cast<const uint16_t*>(kept.data);
      if (p.cache != KvType::kBf16) {
        inner.cache[static_cast<size_t>(p.cache)].load(kept, tokens, floats(parts.wide));
        kernels.narrow(floats(parts.wide), k * k_stride, halves(parts.narrow));
        narrow = halves(parts.narrow);
      }
      for (int64_t c = 0; c < columns; c += 32) {
        kernels.pack_panel(narrow + c, k, std::min<int64_t>(32, n - c), k_stride, 1, halves(to) + c * depth);
      }
    };
    load({job.cache.Keys(b), dim, true}, dim, tokens, (tokens + 31) / 32 * 32, parts.keys);
    load({job.cache.Values(b), dim, false}, tokens, dim, dim, parts.values);
    if (tokens <= 32) std::fill(scores + 1024, scores + 2048, 0.0f);
    for (int64_t h = 0; h < job.heads; ++h) {
      if (kernels.begin != nullptr) kernels.begin();
      for (int64_t c = 0; c < tokens; c += 32) {
        Multiply(kernels, scratch + parts.q + h * kTileRows * dim * element, dim, halves(parts.keys) + c * dim, job.rows,
                 scores + c * 32);
      }
      if (kernels.end != nullptr) kernels.end();
      WeighTask w{};
      w.scores = scores, w.weights = floats(parts.weights), w.rows = job.rows;
      w.position = job.position, w.window = p.window, w.first_token = b * kKvBlockTokens;
      w.scale = p.scale, w.softcap = p.softcap;
      w.max = max + h * kTileRows, w.sum = sum + h * kTileRows * kSumParts, w.o = o + h * kTileRows * dim, w.dim = dim;
      inner.weigh(w);
      const int64_t depth = (tokens + 31) / 32 * 32;
      const int64_t at_once = depth == kKvBlockTokens ? job.rows : 1;   // rows of which nothing is left out lie side by side
      for (int64_t r = 0; r < job.rows; r += at_once) {
        const int64_t n = at_once * depth;
        kernels.convert(floats(parts.weights) + r * kKvBlockTokens, true, n, scratch + parts.a + r * depth * element, n);
      }
      if (kernels.begin != nullptr) kernels.begin();
      for (int64_t c = 0; c < dim; c += 32) {
        Multiply(kernels, scratch + parts.a, depth, halves(parts.values) + c * depth, job.rows, scores);
        inner.add({scores, job.rows, o + h * kTileRows * dim + c, dim});
      }
      if (kernels.end != nullptr) kernels.end();
    }
  }
  for (int64_t h = 0; h < job.heads; ++h) {
    inner.divide({o + h * kTileRows * dim, sum + h * kTileRows * kSumParts, job.rows, dim, job.y + h * dim, job.step});
  }
}

}  // namespace tenon::kernels::cached_attention
