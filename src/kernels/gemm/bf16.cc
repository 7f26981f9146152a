#include "kernels/gemm/bf16.h"

#include <algorithm>

#include "kernels/gemm/bf16_tables.h"
#include "kernels/gemm/gemm.h"

namespace tenon::kernels::gemm {
namespace {

// Rows of A that each panel of B passes over at a time. Where all of B stays in the L2 cache, few rows leave room for it; else as
// much of A as stays in the L2 cache.
constexpr int64_t kBlockBytes = 512 * 1024;
constexpr int64_t kMaxBlockRows = 512;
constexpr int64_t kSmallB = 1024 * 1024;
constexpr int64_t kSmallBlockRows = 224;
constexpr int64_t kSmallBlockRowsOfTiles = 64;  // where tiles are of whole rows
// Blocks of depth of a panel that stay in the L1 cache while the tiles of a block of rows pass over them, the most rows of which
// the sums are kept, and the cache lines of such a part.
constexpr int64_t kCutBlocks = 8;
constexpr int64_t kCutRows = 256;
constexpr int64_t kPartLines = kCutBlocks * kBf16Depth * kBf16Panel / 32;
// What a fill may write after its last row.
constexpr size_t kSlack = 64;
// Multiply-adds that are worth another thread.
constexpr int64_t kThreadWork = 128 * 1024;

int64_t Padded(int64_t k) {
  return (k + kBf16Depth - 1) / kBf16Depth * kBf16Depth;
}

// Elements from row to row of the copy of A. An odd number of cache lines spreads the rows of a tile over the sets of a cache.
int64_t CopyStride(const Bf16Kernels& kernels, int64_t k) {
  const int64_t line = kernels.a_f32 ? 16 : 32;
  return (Padded(k) / line | 1) * line;
}

int64_t ElementBytes(const Bf16Kernels& kernels) {
  return kernels.a_f32 ? 4 : 2;
}

bool SmallB(int64_t k, int64_t n) {
  return Padded(k) * n * 2 <= kSmallB;
}

int64_t BlockRows(const Bf16Kernels& kernels, int64_t k, int64_t n) {
  if (SmallB(k, n)) return kernels.whole_rows ? kSmallBlockRowsOfTiles : kSmallBlockRows;
  const int64_t rows = kBlockBytes / (CopyStride(kernels, k) * ElementBytes(kernels));
  return std::clamp<int64_t>(rows / kBf16MaxRows * kBf16MaxRows, kBf16MaxRows, kMaxBlockRows);
}

bool Direct(const Bf16Kernels& kernels, const Bf16Gemm& g) {
  return g.fill == nullptr && !g.a_f32 && !kernels.a_f32 && g.k % kernels.depth_step == 0 && (!kernels.whole_rows || g.m >= 16);
}

const std::byte* At(const void* p, int64_t index, bool f32) {
  return static_cast<const std::byte*>(p) + index * (f32 ? 4 : 2);
}

struct Part {
  int64_t m0, m1, p0, p1;
};

class Runner {
 public:
  Runner(const Bf16Kernels& kernels, const Bf16Gemm& g, std::byte* copy)
      : kernels_(kernels), g_(g), clamp_(g.activation), copy_(copy), direct_(Direct(kernels, g)) {
    tile_.taps = 1;
    tile_.blocks = Padded(g.k) / kBf16Depth;
    tile_.a_stride = direct_ ? g.a_stride : CopyStride(kernels, g.k);
    tile_.skip = (Padded(g.k) - g.k) / 2;
    tile_.acc = acc_;
    finish_.c_stride = g.c_stride;
    finish_.c_f32 = g.c_f32;
    finish_.residual_stride = g.residual_stride;
    finish_.residual_f32 = g.residual_f32;
    finish_.alpha = g.alpha;
    finish_.lo = clamp_.lo;
    finish_.hi = clamp_.hi;
    finish_.rest = clamp_.needs_rest ? &clamp_.rest : nullptr;
    at_once_ = kernels.tile_finish != nullptr && (finish_.rest == nullptr || finish_.rest->kind == Act::kHardSwish);
  }

  void Run(const Part& part) {
    if (kernels_.begin != nullptr) kernels_.begin();
    const int64_t block = EqualRows(part.m1 - part.m0);
    for (int64_t row = part.m0; row < part.m1; row += block) {
      const int64_t rows = std::min(block, part.m1 - row);
      if (!direct_) Copy(row, rows);
      const bool cut = CutsDepth(rows);
      for (int64_t p = part.p0; p < part.p1; ++p) {
        Bind(p);
        cut ? CutPanel(row, rows) : Panel(row, rows);
      }
    }
    if (kernels_.end != nullptr) kernels_.end();
  }

 private:
  void Copy(int64_t row, int64_t rows) {
    if (g_.fill != nullptr) {
      g_.fill(g_.fill_context, row, rows, copy_, tile_.a_stride);
      return;
    }
    const int64_t row_bytes = tile_.a_stride * ElementBytes(kernels_);
    for (int64_t r = 0; r < rows; ++r) {
      kernels_.convert(At(g_.a, (row + r) * g_.a_stride, g_.a_f32), g_.a_f32, g_.k, copy_ + r * row_bytes, Padded(g_.k));
    }
  }

  // Rows of a block when `all` rows go into as few blocks as BlockRows allows.
  int64_t EqualRows(int64_t all) const {
    const int64_t most = BlockRows(kernels_, g_.k, g_.n);
    const int64_t step = kernels_.whole_rows ? kBf16MaxRows : kernels_.max_rows;
    const int64_t blocks = (all + most - 1) / most;
    const int64_t rows = (all + blocks - 1) / blocks;
    return std::min(most, (rows + step - 1) / step * step);
  }

  // Where each panel is long and many tiles pass over it, unless it is small and the blocks of rows before left it in L2.
  bool CutsDepth(int64_t rows) const {
    return kernels_.can_accumulate && rows > kernels_.max_rows && rows <= kCutRows && tile_.blocks >= 2 * kCutBlocks &&
           (g_.m == rows || !SmallB(g_.k, g_.n));
  }

  // B and what goes by column.
  void Bind(int64_t p) {
    column_ = p * kBf16Panel;
    panel_ = g_.b + p * (g_.b_panel > 0 ? g_.b_panel : Bf16PanelElements(g_.k));
    tile_.b = panel_;
    finish_.n = std::min(kBf16Panel, g_.n - column_);
    tile_.narrow = finish_.n <= 16;
    tile_.to_24 = finish_.n <= 24;
    finish_.bias = g_.bias != nullptr ? g_.bias + column_ : nullptr;
  }

  void Panel(int64_t row, int64_t rows) {
    if (!kernels_.whole_rows) {
      const RowTiles tiles(rows, kernels_.max_rows);
      tile_.ahead = panel_ + kCutBlocks * kBf16Depth * kBf16Panel;
      tile_.ahead_lines = tiles.count == 1 ? kPartLines / kCutBlocks : 0;  // what one tile reads comes from afar
      for (int64_t i = 0; i < tiles.count; ++i) Tile(row, tiles.first(i), tiles.rows(i), 0);
      return;
    }
    int64_t r = 0;
    for (; r + 32 <= rows; r += 32) Tile(row, r, 32, 0);
    const int64_t left = rows - r;
    if (left == 0) return;
    if (!direct_) {
      Tile(row, r, left, 0);  // the copy has room for whole tiles
    } else if (left <= 16 || g_.m < 32) {
      if (left > 16) Tile(row, r, 16, 0);
      const int64_t rest = left > 16 ? left - 16 : left;
      TileEndingAt(row, r + left, rest, 16);
    } else {
      TileEndingAt(row, r + left, left, 32);
    }
  }

  // All tiles pass over a part of the panel before the next part.
  void CutPanel(int64_t row, int64_t rows) {
    const RowTiles tiles(rows, kernels_.max_rows);
    const Bf16Tile whole = tile_;
    for (int64_t b = 0; b < whole.blocks; b += kCutBlocks) {
      const bool last = b + kCutBlocks >= whole.blocks;
      tile_.b = panel_ + b * kBf16Depth * kBf16Panel;
      tile_.blocks = std::min(kCutBlocks, whole.blocks - b);
      tile_.skip = last ? whole.skip : 0;
      tile_.accumulate = b > 0;
      // The next part is fetched while the tiles pass over this one, a share each.
      tile_.ahead_lines = kPartLines / kCutBlocks / tiles.count + 1;
      for (int64_t i = 0; i < tiles.count; ++i) {
        tile_.a = At(RowOfA(row, tiles.first(i)), b * kBf16Depth, kernels_.a_f32);
        tile_.acc = acc_ + tiles.first(i) * kBf16Panel;
        tile_.rows = tiles.rows(i);
        tile_.ahead = panel_ + (b + kCutBlocks) * kBf16Depth * kBf16Panel + i * tile_.ahead_lines * kCutBlocks * 32;
        if (last) {
          TileAndWrite(row + tiles.first(i), tiles.rows(i), 0);
        } else {
          kernels_.tile(tile_);
        }
      }
    }
    tile_ = whole;
  }

  // The last `rows` rows before `end` as the tail of a tile of `height` rows, which begins earlier, or at row 0 of A.
  void TileEndingAt(int64_t row, int64_t end, int64_t rows, int64_t height) {
    const int64_t start = std::max<int64_t>(end - height, -row);
    Tile(row, start, end - start, end - start - rows);
  }

  // Row `first` of the block at `row`.
  const std::byte* RowOfA(int64_t row, int64_t first) const {
    return direct_ ? At(g_.a, (row + first) * g_.a_stride, false) : At(copy_, first * tile_.a_stride, kernels_.a_f32);
  }

  // Rows [first, first + rows) of the block at `row`; the first `skip` of them are computed but not written.
  void Tile(int64_t row, int64_t first, int64_t rows, int64_t skip) {
    tile_.a = RowOfA(row, first);
    tile_.rows = rows;
    TileAndWrite(row + first + skip, rows - skip, skip);
  }

  // The tile as it is bound; its rows from `skip` on are written to rows [row, row + rows) of C.
  void TileAndWrite(int64_t row, int64_t rows, int64_t skip) {
    finish_.acc = tile_.acc + skip * kBf16Panel;
    finish_.rows = rows;
    finish_.c = const_cast<std::byte*>(At(g_.c, row * g_.c_stride + column_, g_.c_f32));
    finish_.residual = g_.residual != nullptr ? At(g_.residual, row * g_.residual_stride + column_, g_.residual_f32) : nullptr;
    if (at_once_ && finish_.n == kBf16Panel) {
      kernels_.tile_finish(tile_, finish_);
    } else {
      kernels_.tile(tile_);
      kernels_.finish(finish_);
    }
  }

  const Bf16Kernels& kernels_;
  const Bf16Gemm& g_;
  Clamp clamp_;
  std::byte* copy_;
  bool direct_;
  bool at_once_;
  Bf16Tile tile_{};
  Bf16Finish finish_{};
  int64_t column_ = 0;
  const uint16_t* panel_ = nullptr;
  alignas(64) float acc_[kCutRows * kBf16Panel];
};

// What BlockRows rows take at most, for this m and k or less, whatever n is.
size_t SlotBytes(const Bf16Kernels& kernels, int64_t m, int64_t k) {
  const int64_t row = CopyStride(kernels, k) * ElementBytes(kernels);
  const int64_t rows = m <= 16 ? 16 : (m + kBf16MaxRows - 1) / kBf16MaxRows * kBf16MaxRows;
  return static_cast<size_t>(std::min(rows * row, std::max(kBlockBytes, kSmallBlockRows * row))) + kSlack;
}

}  // namespace

const Bf16Kernels& SelectBf16(hw::IsaMask isa) {
#if defined(__x86_64__)
  if (hw::Covers(isa, hw::kAmx | hw::kAvx512Bf16 | hw::kAvx512 | hw::kAvx2)) return kBf16Amx;
  if (hw::Covers(isa, hw::kAvx512Bf16 | hw::kAvx512 | hw::kAvx2)) return kBf16Avx512Bf16;
  if (hw::Covers(isa, hw::kAvx512 | hw::kAvx2)) return kBf16Avx512;
  if (hw::Covers(isa, hw::kAvx2)) return kBf16Avx2;
#endif
  (void)isa;
  return kBf16Portable;
}

int64_t Bf16Panels(int64_t n) {
  return (n + kBf16Panel - 1) / kBf16Panel;
}

int64_t Bf16PanelElements(int64_t k) {
  return Padded(k) * kBf16Panel;
}

int64_t Bf16PackedElements(int64_t k, int64_t n) {
  return Bf16Panels(n) * Bf16PanelElements(k);
}

void PackBf16(const Bf16Kernels& kernels, const uint16_t* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride,
              uint16_t* packed, int64_t begin, int64_t end) {
  for (int64_t p = begin; p < end; ++p) {
    const int64_t column = p * kBf16Panel;
    kernels.pack_panel(b + column * n_stride, k, std::min(kBf16Panel, n - column), k_stride, n_stride,
                       packed + p * Bf16PanelElements(k));
  }
}

size_t Bf16ScratchBytes(const Bf16Kernels& kernels, int64_t m, int64_t k, int threads) {
  return SlotBytes(kernels, m, k) * static_cast<size_t>(std::max(1, threads));
}

void RunBf16(const Bf16Kernels& kernels, const Bf16Gemm& g, std::byte* scratch, hw::Team& team) {
  const int64_t panels = Bf16Panels(g.n);
  if (panels == 0 || g.m == 0) return;
  const int64_t work = g.m * g.n * std::max<int64_t>(g.k, 1);
  const int threads = static_cast<int>(std::min<int64_t>(team.size(), work / kThreadWork));
  if (threads <= 1) {
    Runner(kernels, g, scratch).Run({0, g.m, 0, panels});
    return;
  }
  const int64_t tiles = (g.m + kernels.max_rows - 1) / kernels.max_rows;
  const Grid grid = ChooseGrid(tiles, panels, g.m * g.k, g.n * g.k, threads);
  const size_t slot = SlotBytes(kernels, g.m, g.k);
  team.ParallelFor(grid.rows * grid.columns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t r = i % grid.rows;
      const int64_t c = i / grid.rows;
      const Part part{std::min(g.m, tiles * r / grid.rows * kernels.max_rows),
                      std::min(g.m, tiles * (r + 1) / grid.rows * kernels.max_rows), panels * c / grid.columns,
                      panels * (c + 1) / grid.columns};
      if (part.m0 < part.m1 && part.p0 < part.p1) Runner(kernels, g, scratch + slot * static_cast<size_t>(i)).Run(part);
    }
  });
}

}  // namespace tenon::kernels::gemm
