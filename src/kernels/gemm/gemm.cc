#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <limits>

#include "kernels/gemm/tables.h"

namespace tenon::kernels::gemm {
namespace {

// Depth beyond which a panel would push A out of the L2 cache.
constexpr int64_t kMaxDepth = 4096;
// Multiply-adds that are worth another thread.
constexpr int64_t kThreadWork = 64 * 1024;

bool ClampOnly(Act kind) {
  return kind == Act::kNone || kind == Act::kRelu || kind == Act::kClip;
}

}  // namespace

int64_t BlockFloats(int64_t b_floats) {
  return b_floats <= 64 * 1024 ? 32 * 1024 : 256 * 1024;
}

const MicroKernels& Select(hw::IsaMask isa) {
#if defined(__x86_64__)
  if (hw::Covers(isa, hw::kAvx512 | hw::kAvx2)) return kMicroAvx512;
  if (hw::Covers(isa, hw::kAvx2)) return kMicroAvx2;
#endif
  (void)isa;
  return kMicroPortable;
}

Panels::Panels(const MicroKernels& kernels, int64_t n) {
  const int64_t vectors = (n + kernels.lanes - 1) / kernels.lanes;
  count = (vectors + kernels.max_vectors - 1) / kernels.max_vectors;
  base = count == 0 ? 0 : vectors / count;
  wide = count == 0 ? 0 : vectors % count;
}

int64_t AlignFloats(int64_t floats) {
  return (floats + 15) / 16 * 16;
}

int64_t PackedFloats(const MicroKernels& kernels, int64_t k, int64_t n) {
  return (n + kernels.lanes - 1) / kernels.lanes * kernels.lanes * k;
}

void PackPanels(const MicroKernels& kernels, const float* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride,
                float alpha, float* packed, int64_t begin, int64_t end) {
  const Panels panels(kernels, n);
  for (int64_t p = begin; p < end; ++p) {
    const int64_t column = panels.first_vector(p) * kernels.lanes;
    const int64_t width = panels.vectors(p) * kernels.lanes;
    kernels.pack_panel(b + column * n_stride, k, std::min(width, n - column), k_stride, n_stride, alpha, packed + column * k,
                       width);
  }
}

void Pack(const MicroKernels& kernels, const float* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, float alpha,
          float* packed) {
  PackPanels(kernels, b, k, n, k_stride, n_stride, alpha, packed, 0, Panels(kernels, n).count);
}

RowTiles::RowTiles(int64_t rows, int64_t max_rows) {
  count = (rows + max_rows - 1) / max_rows;
  base = count == 0 ? 0 : rows / count;
  tall = count == 0 ? 0 : rows % count;
}

Clamp::Clamp(const Activation& f) {
  if (f.kind == Act::kRelu) lo = 0;
  if (f.kind == Act::kClip) {
    lo = f.a;
    hi = f.b;
  }
  rest = f;
  if (ClampOnly(f.kind)) rest.kind = Act::kNone;
  needs_rest = rest.kind != Act::kNone || rest.has_post();
}

void RunPart(const MicroKernels& kernels, const Gemm& g, int64_t m0, int64_t m1, int64_t p0, int64_t p1) {
  if (m0 >= m1 || p0 >= p1) return;
  const Panels panels(kernels, g.n);
  const Clamp clamp(g.activation);
  const int64_t max_rows = kernels.max_rows[panels.vectors(0)];
  // A residual that is C itself must be read before partial sums overwrite it.
  const bool whole = g.k <= kMaxDepth + kMaxDepth / 2 || g.residual == g.c;
  const int64_t depth_step = whole ? std::max<int64_t>(g.k, 1) : kMaxDepth;
  const int64_t block = std::max<int64_t>(BlockFloats(g.k * g.n) / std::min(depth_step, kMaxDepth), 2 * max_rows);
  Tile t{};
  t.a_stride = g.a_stride;
  t.taps = 1;
  t.c_stride = g.c_stride;
  t.residual_stride = g.residual_stride;
  for (int64_t row = m0; row < m1; row += block) {
    const int64_t rows = std::min(block, m1 - row);
    const RowTiles tiles(rows, max_rows);
    for (int64_t k0 = 0; k0 == 0 || k0 < g.k; k0 += depth_step) {
      const bool last = k0 + depth_step >= g.k;
      t.depth = std::min(depth_step, g.k - k0);
      t.accumulate = k0 > 0;
      t.lo = last ? clamp.lo : -std::numeric_limits<float>::infinity();
      t.hi = last ? clamp.hi : std::numeric_limits<float>::infinity();
      for (int64_t p = p0; p < p1; ++p) {
        const int64_t column = panels.first_vector(p) * kernels.lanes;
        const int64_t width = panels.vectors(p) * kernels.lanes;
        t.n = std::min(width, g.n - column);
        t.b_step = g.b_stride > 0 ? g.b_stride : width;
        t.b = g.b_stride > 0 ? g.b + k0 * g.b_stride + column : g.b + column * g.k + k0 * width;
        t.bias = g.bias != nullptr ? g.bias + column : nullptr;
        const TileKernel* kernel = kernels.tile[panels.vectors(p)];
        for (int64_t i = 0; i < tiles.count; ++i) {
          const int64_t r = row + tiles.first(i);
          t.a = g.a + r * g.a_stride + k0;
          t.c = g.c + r * g.c_stride + column;
          t.residual = last && g.residual != nullptr ? g.residual + r * g.residual_stride + column : nullptr;
          kernel[tiles.rows(i)](t);
          if (last && clamp.needs_rest) kernels.activate(clamp.rest, t.c, tiles.rows(i), t.n, g.c_stride);
        }
      }
    }
  }
}

void Run(const MicroKernels& kernels, const Gemm& gemm) {
  RunPart(kernels, gemm, 0, gemm.m, 0, Panels(kernels, gemm.n).count);
}

Grid ChooseGrid(int64_t tiles, int64_t panels, int64_t a_floats, int64_t b_floats, int threads) {
  Grid best{1, 1};
  double best_cost = 1e300;
  for (int64_t pn = 1; pn <= threads && pn <= std::max<int64_t>(panels, 1); ++pn) {
    const int64_t pm = std::min<int64_t>(threads / pn, std::max<int64_t>(tiles, 1));
    const double work = static_cast<double>((tiles + pm - 1) / pm) * static_cast<double>((panels + pn - 1) / pn);
    // Every row part reads all of its share of B and the reverse; a few per cent decide between equal shares of work.
    const double traffic = static_cast<double>(pm * b_floats + pn * a_floats) / static_cast<double>(1 + a_floats + b_floats);
    const double cost = work * (1 + 0.01 * traffic);
    if (cost < best_cost) {
      best_cost = cost;
      best = {pm, pn};
    }
  }
  return best;
}

void RunParallel(const MicroKernels& kernels, const Gemm& g, hw::Team& team) {
  const Panels panels(kernels, g.n);
  if (panels.count == 0 || g.m == 0) return;
  const int64_t work = g.m * g.n * std::max<int64_t>(g.k, 1);
  const int threads = static_cast<int>(std::min<int64_t>(team.size(), work / kThreadWork));
  if (threads <= 1) {
    RunPart(kernels, g, 0, g.m, 0, panels.count);
    return;
  }
  const int64_t max_rows = kernels.max_rows[panels.vectors(0)];
  const int64_t tiles = (g.m + max_rows - 1) / max_rows;
  const Grid grid = ChooseGrid(tiles, panels.count, g.m * g.k, g.n * g.k, threads);
  team.ParallelFor(grid.rows * grid.columns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t r = i % grid.rows;
      const int64_t c = i / grid.rows;
      const int64_t t0 = tiles * r / grid.rows;
      const int64_t t1 = tiles * (r + 1) / grid.rows;
      RunPart(kernels, g, std::min(g.m, t0 * max_rows), std::min(g.m, t1 * max_rows), panels.count * c / grid.columns,
              panels.count * (c + 1) / grid.columns);
    }
  });
}

}  // namespace tenon::kernels::gemm
