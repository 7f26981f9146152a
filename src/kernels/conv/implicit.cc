#include "kernels/conv/implicit.h"

#include <algorithm>
#include <cstring>

namespace tenon::kernels::conv {
namespace {

// Fewer channels than this: a border tile is copied out rather than walked by pointers of such short runs.
constexpr int64_t kCopyBelow = 8;
// What the pointers and copies of one block of tiles may take: they live in the L2 cache beside a panel.
constexpr int64_t kBlockTableBytes = 96 * 1024;
constexpr int64_t kMaxBlock = 256;
constexpr int64_t kThreadWork = 64 * 1024;

int64_t RoundUp(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

int64_t PackedWeightFloats(const gemm::MicroKernels& kernels, int64_t oc, int64_t icg, int64_t taps, int64_t group) {
  return group * gemm::PackedFloats(kernels, taps * icg, oc / group);
}

void PackWeights(const gemm::MicroKernels& kernels, const float* w, int64_t oc, int64_t icg, int64_t taps, int64_t group,
                 float* packed) {
  const int64_t ocg = oc / group;
  const int64_t k = taps * icg;
  const gemm::Panels panels(kernels, ocg);
  for (int64_t g = 0; g < group; ++g) {
    for (int64_t p = 0; p < panels.count; ++p) {
      const int64_t column = panels.first_vector(p) * kernels.lanes;
      const int64_t width = panels.vectors(p) * kernels.lanes;
      float* to = packed + g * gemm::PackedFloats(kernels, k, ocg) + column * k;
      kernels.pack_columns(w + (g * ocg + column) * k, k, std::min(width, ocg - column), k, 1, taps, to, width);
    }
  }
}

Implicit::Implicit(const gemm::MicroKernels& kernels, const Plane& plane, int threads)
    : kernels_(&kernels), p_(plane), threads_(std::max(1, threads)) {
  const gemm::Panels panels(kernels, p_.ocg());
  if (panels.count == 0 || p_.n * p_.out_pixels() == 0) return;
  max_rows_ = kernels.max_rows[panels.vectors(0)];
  const int64_t width = p_.out[2];
  by_line_ = width % max_rows_ == 0 || width >= 4 * max_rows_;
  copy_borders_ = p_.icg() < kCopyBelow;
  const int64_t lines = p_.n * p_.out[0] * p_.out[1];
  tiles_per_line_ = gemm::RowTiles(width, max_rows_).count;
  tiles_ = by_line_ ? lines * tiles_per_line_ : gemm::RowTiles(lines * width, max_rows_).count;

  const bool whole_rows = p_.group == 1 && p_.dilation[2] == 1;
  run_ = whole_rows ? p_.kernel[2] * p_.c : p_.icg();
  for (int64_t d = 0; d < p_.kernel[0]; ++d) {
    for (int64_t h = 0; h < p_.kernel[1]; ++h) {
      for (int64_t w = 0; w < (whole_rows ? 1 : p_.kernel[2]); ++w) {
        tap_offsets_.push_back(((d * p_.dilation[0] * p_.in[1] + h * p_.dilation[1]) * p_.in[2] + w * p_.dilation[2]) * p_.c);
      }
    }
  }
  const int64_t tile_table = copy_borders_ ? RoundUp(max_rows_ * p_.taps() * p_.icg() * 4) : RoundUp(max_rows_ * p_.taps() * 8);
  int64_t tile_input = max_rows_ * p_.icg();   // floats that only this tile reads
  for (int i = 0; i < 3; ++i) tile_input *= std::min(p_.stride[i], p_.kernel[i]);
  const int64_t input = gemm::BlockFloats(p_.taps() * p_.icg() * p_.ocg()) / std::max<int64_t>(1, tile_input);
  block_ = std::clamp<int64_t>(std::min(input, kBlockTableBytes / tile_table), 2, kMaxBlock);
  block_ = std::min(block_, tiles_);
  slot_bytes_ =
      static_cast<size_t>(RoundUp(block_ * static_cast<int64_t>(sizeof(TileRef))) + block_ * tile_table + RoundUp(p_.icg() * 4));
}

// Coordinates of an output pixel, moved forward without divisions.
struct Implicit::At {
  int64_t w, h, d, n;
};

int64_t Implicit::PixelOf(int64_t tile) const {
  if (by_line_) {
    return tile / tiles_per_line_ * p_.out[2] + gemm::RowTiles(p_.out[2], max_rows_).first(tile % tiles_per_line_);
  }
  return gemm::RowTiles(p_.n * p_.out_pixels(), max_rows_).first(tile);
}

Implicit::At Implicit::Coordinates(int64_t pixel) const {
  At at;
  at.w = pixel % p_.out[2];
  pixel /= p_.out[2];
  at.h = pixel % p_.out[1];
  pixel /= p_.out[1];
  at.d = pixel % p_.out[0];
  at.n = pixel / p_.out[0];
  return at;
}

void Implicit::Advance(At* at, int64_t pixels) const {
  at->w += pixels;
  while (at->w >= p_.out[2]) {
    at->w -= p_.out[2];
    if (++at->h < p_.out[1]) continue;
    at->h = 0;
    if (++at->d < p_.out[0]) continue;
    at->d = 0;
    ++at->n;
  }
}

// to[tap * rows + r]: where tap meets pixel + r, or zeros outside the picture.
void Implicit::FillPointers(const float* x, At at, int64_t rows, const float* zeros, const float** to) const {
  for (int64_t r = 0; r < rows; ++r, Advance(&at, 1)) {
    const int64_t w0 = at.w * p_.stride[2] - p_.pad[2];
    const int64_t h0 = at.h * p_.stride[1] - p_.pad[1];
    const int64_t d0 = at.d * p_.stride[0] - p_.pad[0];
    const float* image = x + at.n * p_.in_pixels() * p_.c;
    const float** out = to + r;
    for (int64_t d = 0; d < p_.kernel[0]; ++d) {
      const int64_t id = d0 + d * p_.dilation[0];
      for (int64_t h = 0; h < p_.kernel[1]; ++h) {
        const int64_t ih = h0 + h * p_.dilation[1];
        const bool inside = id >= 0 && id < p_.in[0] && ih >= 0 && ih < p_.in[1];
        const float* line = image + (id * p_.in[1] + ih) * p_.in[2] * p_.c;
        for (int64_t w = 0; w < p_.kernel[2]; ++w, out += rows) {
          const int64_t iw = w0 + w * p_.dilation[2];
          *out = inside && iw >= 0 && iw < p_.in[2] ? line + iw * p_.c : zeros;
        }
      }
    }
  }
}

void Implicit::FillCopy(const float* x, At at, int64_t rows, float* to) const {
  const int64_t icg = p_.icg();
  for (int64_t r = 0; r < rows; ++r, Advance(&at, 1)) {
    const int64_t w0 = at.w * p_.stride[2] - p_.pad[2];
    const int64_t h0 = at.h * p_.stride[1] - p_.pad[1];
    const int64_t d0 = at.d * p_.stride[0] - p_.pad[0];
    const float* image = x + at.n * p_.in_pixels() * p_.c;
    // Kernel positions [w_lo, w_hi) fall inside the line.
    const int64_t step = p_.dilation[2];
    const int64_t w_lo = std::clamp<int64_t>(w0 < 0 ? (-w0 + step - 1) / step : 0, 0, p_.kernel[2]);
    const int64_t w_hi = std::clamp<int64_t>(w0 < p_.in[2] ? (p_.in[2] - w0 + step - 1) / step : 0, w_lo, p_.kernel[2]);
    for (int64_t d = 0; d < p_.kernel[0]; ++d) {
      const int64_t id = d0 + d * p_.dilation[0];
      for (int64_t h = 0; h < p_.kernel[1]; ++h, to += p_.kernel[2] * icg) {
        const int64_t ih = h0 + h * p_.dilation[1];
        if (id < 0 || id >= p_.in[0] || ih < 0 || ih >= p_.in[1]) {
          std::fill(to, to + p_.kernel[2] * icg, 0.0F);
          continue;
        }
        const float* line = image + (id * p_.in[1] + ih) * p_.in[2] * p_.c;
        std::fill(to, to + w_lo * icg, 0.0F);
        for (int64_t w = w_lo; w < w_hi; ++w) {
          const float* from = line + (w0 + w * step) * p_.c;
          for (int64_t c = 0; c < icg; ++c) to[w * icg + c] = from[c];
        }
        std::fill(to + w_hi * icg, to + p_.kernel[2] * icg, 0.0F);
      }
    }
  }
}

Implicit::TileRef Implicit::Prepare(const float* x, const At& at, int64_t pixel, int64_t rows, const float* zeros,
                                    const float** pointers, float* copy) const {
  TileRef t{nullptr, nullptr, pixel, static_cast<int>(rows), false};
  const int64_t w0 = at.w * p_.stride[2] - p_.pad[2];
  const int64_t h0 = at.h * p_.stride[1] - p_.pad[1];
  const int64_t d0 = at.d * p_.stride[0] - p_.pad[0];
  const int64_t w_last = w0 + (rows - 1) * p_.stride[2] + (p_.kernel[2] - 1) * p_.dilation[2];
  const bool inner = at.w + rows <= p_.out[2] && w0 >= 0 && w_last < p_.in[2] && h0 >= 0 &&
                     h0 + (p_.kernel[1] - 1) * p_.dilation[1] < p_.in[1] && d0 >= 0 &&
                     d0 + (p_.kernel[0] - 1) * p_.dilation[0] < p_.in[0];
  if (inner) {
    t.a = x + (((at.n * p_.in[0] + d0) * p_.in[1] + h0) * p_.in[2] + w0) * p_.c;
  } else if (copy_borders_) {
    FillCopy(x, at, rows, copy);
    t.a = copy;
    t.copied = true;
  } else {
    FillPointers(x, at, rows, zeros, pointers);
    t.rows = pointers;
  }
  return t;
}

void Implicit::RunTiles(const Operands& o, const gemm::Clamp& clamp, int64_t t0, int64_t t1, int64_t p0, int64_t p1,
                        std::byte* scratch) const {
  const gemm::MicroKernels& kernels = *kernels_;
  const int64_t ocg = p_.ocg();
  const int64_t icg = p_.icg();
  const int64_t k = p_.taps() * icg;
  const gemm::Panels panels(kernels, ocg);
  auto* zeros = reinterpret_cast<float*>(scratch);
  std::fill(zeros, zeros + icg, 0.0F);
  auto* refs = reinterpret_cast<TileRef*>(scratch + RoundUp(icg * 4));
  std::byte* tables = scratch + RoundUp(icg * 4) + RoundUp(block_ * static_cast<int64_t>(sizeof(TileRef)));
  const int64_t tile_table = copy_borders_ ? RoundUp(max_rows_ * k * 4) : RoundUp(max_rows_ * p_.taps() * 8);
  const gemm::RowTiles cut(by_line_ ? p_.out[2] : p_.n * p_.out_pixels(), max_rows_);
  gemm::Tile t{};
  t.c_stride = p_.oc;
  t.residual_stride = p_.oc;
  t.lo = clamp.lo;
  t.hi = clamp.hi;
  for (int64_t first = t0; first < t1; first += block_) {
    const int64_t count = std::min(block_, t1 - first);
    for (int64_t g = 0; g < p_.group; ++g) {
      int64_t in_line = first % tiles_per_line_;
      int64_t pixel = PixelOf(first);
      At at = Coordinates(pixel);
      for (int64_t i = 0; i < count; ++i) {
        std::byte* table = tables + i * tile_table;
        const int64_t rows = cut.rows(by_line_ ? in_line : first + i);
        refs[i] = Prepare(o.x + g * icg, at, pixel, rows, zeros, reinterpret_cast<const float**>(table),
                          reinterpret_cast<float*>(table));
        pixel += rows;
        Advance(&at, rows);
        if (++in_line == tiles_per_line_) in_line = 0;
      }
      for (int64_t p = p0; p < p1; ++p) {
        const int64_t column = panels.first_vector(p) * kernels.lanes;
        const int64_t channel = g * ocg + column;
        t.b_step = panels.vectors(p) * kernels.lanes;
        t.n = std::min(t.b_step, ocg - column);
        t.b = o.packed + g * gemm::PackedFloats(kernels, k, ocg) + column * k;
        t.bias = o.bias != nullptr ? o.bias + channel : nullptr;
        const gemm::TileKernel* kernel = kernels.tile[panels.vectors(p)];
        for (int64_t i = 0; i < count; ++i) {
          const TileRef& ref = refs[i];
          t.a = ref.a;
          t.rows = ref.rows;
          if (ref.copied) {
            t.taps = 1;
            t.depth = k;
            t.a_stride = k;
            t.tap_offsets = nullptr;
          } else if (ref.rows != nullptr) {
            t.taps = p_.taps();
            t.depth = icg;
          } else {
            t.taps = static_cast<int64_t>(tap_offsets_.size());
            t.depth = run_;
            t.a_stride = p_.stride[2] * p_.c;
            t.tap_offsets = tap_offsets_.data();
          }
          t.c = o.y + ref.pixel * p_.oc + channel;
          t.residual = o.residual != nullptr ? o.residual + ref.pixel * p_.oc + channel : nullptr;
          kernel[ref.count](t);
          if (clamp.needs_rest) kernels.activate(clamp.rest, t.c, ref.count, t.n, p_.oc);
        }
      }
    }
  }
}

void Implicit::Run(const Operands& o, const gemm::Activation& activation, std::byte* scratch, hw::Team& team) const {
  if (tiles_ == 0) return;
  const gemm::Clamp clamp(activation);
  const gemm::Panels panels(*kernels_, p_.ocg());
  const int64_t k = p_.taps() * p_.icg();
  const int64_t work = p_.n * p_.out_pixels() * p_.oc * std::max<int64_t>(1, k);
  const int threads = static_cast<int>(std::min<int64_t>(std::min(threads_, team.size()), work / kThreadWork));
  if (threads <= 1) {
    RunTiles(o, clamp, 0, tiles_, 0, panels.count, scratch);
    return;
  }
  const int64_t column_parts = p_.group == 1 ? panels.count : 1;
  const gemm::Grid grid = gemm::ChooseGrid(tiles_, column_parts, p_.n * p_.in_pixels() * p_.c, k * p_.oc, threads);
  team.ParallelFor(grid.rows * grid.columns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t r = i % grid.rows;
      const int64_t c = i / grid.rows;
      RunTiles(o, clamp, tiles_ * r / grid.rows, tiles_ * (r + 1) / grid.rows, panels.count * c / grid.columns,
               panels.count * (c + 1) / grid.columns, scratch + static_cast<size_t>(i) * slot_bytes_);
    }
  });
}

}  // namespace tenon::kernels::conv
