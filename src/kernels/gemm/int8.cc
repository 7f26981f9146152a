#include "kernels/gemm/int8.h"

#include <algorithm>
#include <cstring>

#include "kernels/gemm/int8_tables.h"

namespace tenon::kernels::gemm {
namespace {

constexpr int64_t kThreadWork = 512 * 1024;   // multiply-adds worth another thread
constexpr int64_t kMaxBlock = 256;
// Of a panel that stays in the L1 cache while tiles pass over it, sums that wait for the next part, and the B for which it pays.
constexpr int64_t kPartBytes = 16 * 1024, kWaitingSums = 16 * 1024, kLargeB = 512 * 1024;
// Of A that a block of rows may hold: beside a small B in the L1 cache half of the time, else in L2 (see BlockFloats).
constexpr int64_t kSmallB = 128 * 1024, kSmallBlock = 96 * 1024, kBlock = 512 * 1024;

int64_t RoundUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

int64_t SizeOf(Int8Kind kind) {
  return kind == Int8Kind::kF32 || kind == Int8Kind::kI32 ? 4 : kind == Int8Kind::kBF16 ? 2 : 1;
}

void PackColumn(const Int8Weights& w, const uint8_t* from, int64_t k_unit, int64_t columns, int8_t* to, int32_t* sum) {
  uint32_t total = 0;
  const uint8_t flip = w.is_unsigned ? 0x80 : 0;
  for (int64_t t = 0; t < w.taps; ++t) {
    int64_t k = 0;
    for (int64_t o = 0; o < w.outer; ++o) {
      const uint8_t* p = from + t * w.tap_stride + o * w.outer_stride;
      for (int64_t i = 0; i < w.inner; ++i, ++k, p += w.inner_stride) {
        const auto v = static_cast<int8_t>(*p ^ flip);
        to[k / 4 * columns * 4 + k % 4] = v;
        total += static_cast<uint32_t>(v);
      }
    }
    to += RoundUp(w.depth(), k_unit) * columns;
  }
  *sum = static_cast<int32_t>(total);
}

}  // namespace

const Int8Kernels& SelectInt8(hw::IsaMask isa) {
#if defined(__x86_64__)
  constexpr hw::IsaMask kVnni = hw::kAvx2 | hw::kAvx512 | hw::kAvx512Vnni;
  if (hw::Covers(isa, kVnni | hw::kAmx)) return kInt8Amx;
  if (hw::Covers(isa, kVnni)) return kInt8Avx512Vnni;
  if (hw::Covers(isa, hw::kAvx2)) return kInt8Avx2;
#endif
  (void)isa;
  return kInt8Portable;
}

Int8Panels::Int8Panels(const Int8Kernels& kernels, int64_t n) {
  const int64_t vectors = (n + kernels.lanes - 1) / kernels.lanes;
  count = (vectors + kernels.max_vectors - 1) / kernels.max_vectors;
  base = count == 0 ? 0 : vectors / count;
  wide = count == 0 ? 0 : vectors % count;
}

Result<Int8Packed> Int8Packed::Make(const Int8Kernels& kernels, const Int8Weights& w) {
  Int8Packed p;
  p.groups_ = w.groups;
  p.n_ = w.n;
  p.taps_ = w.taps;
  p.depth_ = w.depth();
  p.stored_ = RoundUp(p.depth_, kernels.k_unit);
  p.group_bytes_ = RoundUp(w.n, kernels.lanes) * p.stored_ * w.taps;
  p.buffer_ = Buffer::Allocate(static_cast<size_t>(std::max<int64_t>(64, w.groups * p.group_bytes_)));
  if (p.buffer_ == nullptr) return ResourceLimit("no memory for {} bytes of packed weights", w.groups * p.group_bytes_);
  std::memset(p.buffer_->data(), 0, p.buffer_->bytes());
  p.sums_.resize(static_cast<size_t>(w.groups * w.n));
  const Int8Panels panels(kernels, w.n);
  for (int64_t g = 0; g < w.groups; ++g) {
    for (int64_t i = 0; i < panels.count; ++i) {
      const int64_t first = panels.first_vector(i) * kernels.lanes;
      const int64_t columns = panels.vectors(i) * kernels.lanes;
      int8_t* panel = static_cast<int8_t*>(p.buffer_->data()) + g * p.group_bytes_ + first * p.stored_ * w.taps;
      for (int64_t c = 0; c < std::min(columns, w.n - first); ++c) {
        PackColumn(w, w.b + g * w.group_stride + (first + c) * w.n_stride, kernels.k_unit, columns, panel + c * 4,
                   &p.sums_[static_cast<size_t>(g * w.n + first + c)]);
      }
    }
  }
  return p;
}

struct Int8Product::TileRef {
  const uint8_t* a;
  int64_t plane, row;
  int64_t y_row;   // of Y; -1 when not all of its rows exist, one after another
  int count;
  bool copied;
};

struct Int8Product::Part {
  const Int8Packed& packed;
  const Int8Operands& o;
  const Clamp& clamp;
  int64_t t0, t1, p0, p1;
};

Int8Product::Int8Product(const Int8Kernels& kernels, hw::IsaMask isa, const Int8Packed& packed, const Int8Walk& walk,
                         std::vector<int64_t> tap_offsets, int64_t input_bytes, int threads)
    : kernels_(&kernels),
      floats_(&Select(isa)),
      walk_(walk),
      tap_offsets_(std::move(tap_offsets)),
      threads_(std::max(1, threads)) {
  const Int8Panels panels(kernels, packed.n());
  if (panels.count == 0 || walk_.planes * walk_.rows == 0) return;
  max_rows_ = kernels.max_rows[panels.vectors(0)];
  const RowTiles cut(walk_.rows, max_rows_);
  height_ = cut.rows(0);
  tiles_ = walk_.planes * cut.count;
  for (int64_t offset : tap_offsets_) furthest_ = std::max(furthest_, offset);
  furthest_ += packed.stored_depth();
  for (int64_t t = 0; t < packed.taps(); ++t) copy_offsets_.push_back(t * packed.stored_depth());
  const int64_t row_bytes = packed.taps() * packed.stored_depth();
  tile_bytes_ = RoundUp(height_ * row_bytes, 64) + 64;
  const int64_t b_bytes = packed.group_bytes();
  const int64_t tile_input = std::max<int64_t>(1, std::min(height_ * row_bytes, input_bytes / tiles_));
  block_ =
      std::clamp<int64_t>((b_bytes <= kSmallB ? kSmallBlock : kBlock) / (walk_.copies ? tile_bytes_ : tile_input), 2, kMaxBlock);
  block_ = std::min(RoundUp(block_, kernels.max_tiles), RoundUp(tiles_, kernels.max_tiles));
  slot_bytes_ = static_cast<size_t>(RoundUp(block_ * static_cast<int64_t>(sizeof(TileRef)), 64) + block_ * tile_bytes_);
  work_ = walk_.planes * walk_.PlaneRows() * packed.groups() * packed.n() * std::max<int64_t>(1, packed.taps() * packed.depth());
  a_bytes_ = input_bytes;
}

int64_t Int8Product::TilesOfPlane() const {
  return tiles_ / walk_.planes;
}

int64_t Int8Product::reach() const {
  return (height_ - 1) * walk_.row_stride + furthest_;
}

void Int8Product::Prepare(const Part& part, int64_t group, int64_t first, int64_t count, TileRef* refs, uint8_t* copies) const {
  const RowTiles cut(walk_.rows, max_rows_);
  const int64_t row_bytes = part.packed.taps() * part.packed.stored_depth();
  const int64_t plane_rows = walk_.PlaneRows();
  int64_t plane = first / cut.count, in_plane = first % cut.count, plane_start = 0;
  for (int64_t i = 0; i < count; ++i, ++in_plane) {
    if (in_plane == cut.count) in_plane = 0, ++plane;
    TileRef& ref = refs[i];
    ref.plane = plane;
    ref.row = cut.first(in_plane);
    ref.count = static_cast<int>(cut.rows(in_plane));
    ref.y_row = plane * plane_rows + ref.row;
    if (walk_.pitch != walk_.valid) {
      const int64_t line = ref.row / walk_.pitch, in_line = ref.row % walk_.pitch;
      ref.y_row = in_line + ref.count <= walk_.valid ? plane * plane_rows + line * walk_.valid + in_line : -1;
    }
    uint8_t* to = copies + i * tile_bytes_;
    ref.copied = true;
    ref.a = to;
    if (walk_.copies) {
      part.o.gather->Fill(part.o.a, group, ref.row, ref.count, to);
      continue;
    }
    if (i == 0 || in_plane == 0) {
      const int64_t outer = plane / walk_.extents[1];
      plane_start = outer / walk_.extents[0] * walk_.plane_strides[0] + outer % walk_.extents[0] * walk_.plane_strides[1] +
                    plane % walk_.extents[1] * walk_.plane_strides[2] + group * part.o.group_step;
    }
    const int64_t start = plane_start + ref.row * walk_.row_stride;
    const int64_t rows = kernels_->begin != nullptr ? height_ : ref.count;
    if (start + (rows - 1) * walk_.row_stride + furthest_ <= part.o.a_end - part.o.a) {
      ref.a = part.o.a + start;
      ref.copied = false;
      continue;
    }
    for (int64_t r = 0; r < ref.count; ++r) {   // the last tiles: reading ahead would leave the tensor
      for (size_t t = 0; t < tap_offsets_.size(); ++t) {
        std::memcpy(to + r * row_bytes + copy_offsets_[t], part.o.a + start + r * walk_.row_stride + tap_offsets_[t],
                    static_cast<size_t>(part.packed.depth()));
      }
    }
  }
}

Int8Finish Int8FinishOf(const Int8Finish& all, const Clamp& clamp, int64_t column, int64_t n) {
  Int8Finish f = all;
  f.n = n;
  f.offset = all.offset + column;
  f.b_zero = all.b_zero != nullptr ? all.b_zero + column : nullptr;
  f.scale = all.scale + column;
  f.bias = all.bias != nullptr ? all.bias + column : nullptr;
  f.lo = clamp.lo;
  f.hi = clamp.hi;
  return f;
}

void PointInt8Finish(const Int8Finish& all, int64_t row, int64_t column, Int8Finish* f) {
  f->y = static_cast<std::byte*>(all.y) + (row * all.y_stride + column) * SizeOf(all.kind);
  if (all.residual != nullptr) {
    f->residual = static_cast<const std::byte*>(all.residual) + (row * all.residual_stride + column) * SizeOf(all.residual_kind);
  }
}

void FinishInt8(const Int8Kernels& kernels, const MicroKernels& floats, const Int8Finish& all, const Clamp& clamp, int64_t row,
                int64_t rows, int64_t column, int64_t n, int32_t* sums, int64_t sums_stride) {
  Int8Finish f = Int8FinishOf(all, clamp, column, n);
  f.sums = sums;
  f.sums_stride = sums_stride;
  f.rows = rows;
  PointInt8Finish(all, row, column, &f);
  if (!clamp.needs_rest) {
    kernels.finish(f);
    return;
  }
  Int8Finish g = f;
  g.kind = Int8Kind::kF32;
  const bool direct = all.kind == Int8Kind::kF32;
  if (!direct) {
    g.y = f.sums;
    g.y_stride = sums_stride;
  }
  kernels.finish(g);
  floats.activate(clamp.rest, static_cast<float*>(g.y), rows, n, g.y_stride);
  if (!direct) kernels.convert(f);
}

void Int8Product::FinishTile(const Part& part, const TileRef& ref, int64_t channel, int64_t n, int64_t columns, int32_t* sums,
                             const int32_t* row_sums) const {
  Int8Finish all = part.o.finish;
  const int64_t plane_first = ref.plane * walk_.PlaneRows();
  for (int64_t r = 0; r < ref.count;) {
    const int64_t line = (ref.row + r) / walk_.pitch;
    const int64_t column = (ref.row + r) % walk_.pitch;
    const int64_t run = std::min(ref.count - r, walk_.pitch - column);
    const int64_t rows = std::min(run, walk_.valid - column);
    all.row_sums = row_sums != nullptr ? row_sums + r : nullptr;
    if (rows > 0) {
      FinishInt8(*kernels_, *floats_, all, part.clamp, plane_first + line * walk_.valid + column, rows, channel, n,
                 sums + r * columns, columns);
    }
    r += run;
  }
}

void Int8Product::Panel(const Part& part, int64_t group, int64_t p, int64_t count, const TileRef* refs) const {
  const Int8Panels panels(*kernels_, part.packed.n());
  const int64_t column = panels.first_vector(p) * kernels_->lanes;
  const int64_t columns = panels.vectors(p) * kernels_->lanes;
  // Two sets of sums: what becomes of one is computed while the next is still being multiplied.
  constexpr int kSet = kInt8MaxTiles * kInt8MaxRows * kInt8MaxColumns;
  alignas(64) int32_t sums[2][kSet];
  Int8Tile t{};
  t.taps = part.packed.taps();
  t.depth = part.packed.depth();
  t.b = part.packed.data() + group * part.packed.group_bytes() + column * part.packed.taps() * part.packed.stored_depth();
  t.columns = static_cast<int>(columns);
  const Int8TileKernel kernel = kernels_->tile[part.o.a_signed ? 1 : 0][panels.vectors(p)];
  const int64_t n = std::min(columns, part.packed.n() - column);
  const int64_t channel = group * part.packed.n() + column;
  const auto bind = [&](int64_t slot, const TileRef& ref) {
    t.a[slot] = ref.a;
    t.a_stride[slot] = ref.copied ? t.taps * part.packed.stored_depth() : walk_.row_stride;
    t.tap_offsets[slot] = ref.copied ? copy_offsets_.data() : tap_offsets_.data();
  };
  const auto finish = [&](int64_t first, int64_t tiles, int32_t* set) {
    int32_t row_sums[kInt8MaxRows];
    for (int64_t j = 0; j < tiles; ++j) {
      const TileRef& ref = refs[first + j];
      if (part.o.finish.b_zero != nullptr) {
        bind(0, ref);
        t.rows = ref.count;
        kernels_->row_sums(t, part.o.a_signed, row_sums);
      }
      FinishTile(part, ref, channel, n, columns, set + j * kInt8MaxRows * columns, row_sums);
    }
  };
  const int64_t step = kernels_->max_tiles;
  for (int64_t i = 0; i < count; i += step) {
    t.tiles = static_cast<int>(std::min(step, count - i));
    for (int64_t j = 0; j < t.tiles; ++j) bind(j, refs[i + j]);
    t.rows = refs[i].count;
    t.sums = sums[i / step % 2];
    kernel(t);
    if (i > 0) finish(i - step, step, sums[(i / step + 1) % 2]);
  }
  const int64_t last = (count - 1) / step * step;
  finish(last, count - last, sums[last / step % 2]);
}

// The part of a panel that tiles pass over before the next: some taps, or some of the depth of one.
struct Int8Product::Depths {
  int64_t tap, taps, first, depth;
};

// As many whole taps as `most` bytes of depth allow, or up to `most` of one tap; taps 0 at the end.
Int8Product::Depths Int8Product::NextDepths(const Int8Packed& packed, int64_t most, const Depths& before) {
  const int64_t stored = packed.stored_depth();
  int64_t tap = before.tap, first = before.first + before.depth;
  if (before.taps > 1 || first >= packed.depth()) {
    tap += before.taps;
    first = 0;
  }
  if (tap >= packed.taps()) return {tap, 0, 0, 0};
  if (stored <= most) return {tap, std::min(packed.taps() - tap, most / stored), 0, packed.depth()};
  return {tap, 1, first, std::min(most, packed.depth() - first)};
}

// Tiles whose sums become results in registers. Where a panel is long, all tiles pass over a part of it before the next, so that
// it is in the L1 cache, and fetch the next part meanwhile; their sums wait in between.
void Int8Product::PanelToResults(const Part& part, int64_t group, int64_t p, int64_t count, const TileRef* refs) const {
  const Int8Packed& packed = part.packed;
  const Int8Panels panels(*kernels_, packed.n());
  const int64_t column = panels.first_vector(p) * kernels_->lanes;
  const int64_t columns = panels.vectors(p) * kernels_->lanes;
  const int64_t n = std::min(columns, packed.n() - column);
  const int64_t channel = group * packed.n() + column;
  const int64_t all = packed.taps() * packed.stored_depth();
  const int8_t* b = packed.data() + group * packed.group_bytes() + column * all;
  alignas(64) int32_t sums[kWaitingSums];
  const int64_t tile_sums = height_ * columns;
  const bool cut = count > 1 && packed.group_bytes() > kLargeB && all * columns >= 2 * kPartBytes;
  const int64_t most = cut ? kPartBytes / columns / 4 * 4 : all;
  const int64_t together = cut ? std::min(count, kWaitingSums / tile_sums) : count;
  Int8Finish f = Int8FinishOf(part.o.finish, part.clamp, channel, n);
  Int8Tile t{};
  t.columns = static_cast<int>(columns);
  t.tiles = 1;
  for (int64_t begin = 0; begin < count; begin += together) {
    const int64_t end = std::min(count, begin + together);
    for (Depths d = NextDepths(packed, most, {0, 0, 0, 0}); d.taps > 0;) {
      const Depths next = NextDepths(packed, most, d);
      t.taps = d.taps;
      t.depth = d.depth;
      t.b = b + (d.tap * packed.stored_depth() + d.first) * columns;
      if (cut) t.ahead_lines = kPartBytes / 64 / (end - begin) + 1;
      for (int64_t i = begin; i < end; ++i) {
        const TileRef& ref = refs[i];
        t.a[0] = ref.a + d.first;
        t.a_stride[0] = ref.copied ? all : walk_.row_stride;
        t.tap_offsets[0] = (ref.copied ? copy_offsets_.data() : tap_offsets_.data()) + d.tap;
        t.rows = ref.count;
        t.sums = sums + (cut ? (i - begin) * tile_sums : 0);
        t.ahead = t.b + kPartBytes + (i - begin) * t.ahead_lines * 64;
        if (next.taps == 0 && ref.y_row >= 0) {
          PointInt8Finish(part.o.finish, ref.y_row, channel, &f);
          kernels_->to_results[panels.vectors(p)](t, f);
        } else {
          kernels_->tile[0][panels.vectors(p)](t);
          if (next.taps == 0) FinishTile(part, ref, channel, n, columns, t.sums, nullptr);
        }
      }
      t.accumulate = true;
      d = next;
    }
    t.accumulate = false;
  }
}

void Int8Product::RunTiles(const Part& part, std::byte* scratch) const {
  if (part.t0 >= part.t1 || part.p0 >= part.p1) return;
  auto* refs = reinterpret_cast<TileRef*>(scratch);
  auto* copies = reinterpret_cast<uint8_t*>(scratch) + RoundUp(block_ * static_cast<int64_t>(sizeof(TileRef)), 64);
  const bool to_results =
      kernels_->in_steps != nullptr && !part.o.a_signed && !part.clamp.needs_rest && kernels_->in_steps(part.o.finish);
  if (kernels_->begin != nullptr) kernels_->begin(static_cast<int>(height_));
  for (int64_t first = part.t0; first < part.t1; first += block_) {
    const int64_t count = std::min(block_, part.t1 - first);
    for (int64_t g = 0; g < part.packed.groups(); ++g) {
      Prepare(part, g, first, count, refs, copies);
      for (int64_t p = part.p0; p < part.p1; ++p) {
        to_results ? PanelToResults(part, g, p, count, refs) : Panel(part, g, p, count, refs);
      }
    }
  }
  if (kernels_->end != nullptr) kernels_->end();
}

void Int8Product::Run(const Int8Packed& packed, const Int8Operands& o, std::byte* scratch, hw::Team& team) const {
  if (tiles_ == 0) return;
  const Clamp clamp(o.activation);
  const Int8Panels panels(*kernels_, packed.n());
  const int threads = static_cast<int>(std::min<int64_t>(std::min(threads_, team.size()), work_ / kThreadWork));
  if (threads <= 1) {
    RunTiles({packed, o, clamp, 0, tiles_, 0, panels.count}, scratch);
    return;
  }
  const int64_t column_parts = packed.groups() == 1 ? panels.count : 1;
  const Grid grid = ChooseGrid((tiles_ + kernels_->max_tiles - 1) / kernels_->max_tiles, column_parts, a_bytes_,
                               packed.group_bytes() * packed.groups(), threads);
  team.ParallelFor(grid.rows * grid.columns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t r = i % grid.rows;
      const int64_t c = i / grid.rows;
      RunTiles({packed, o, clamp, tiles_ * r / grid.rows, tiles_ * (r + 1) / grid.rows, panels.count * c / grid.columns,
                panels.count * (c + 1) / grid.columns},
               scratch + static_cast<size_t>(i) * slot_bytes_);
    }
  });
}

}  // namespace tenon::kernels::gemm
