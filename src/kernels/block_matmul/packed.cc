// The packed row: weights are packed once into groups of 16 columns. Few rows of X are quantised to 16 bits and multiplied as
// they come, at the speed at which memory gives the weights. Many are products of bf16, panel by panel unpacked into the cache;
// or, with VNNI and no AMX, of bytes, where rows only leave keys and values in a cache and nobody asks for their scores.
#include "kernels/block_matmul/packed.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <span>

#include "kernels/block_matmul/block_matmul.h"
#include "kernels/block_matmul/bytes.h"
#include "kernels/block_matmul/repack.h"
#include "kernels/gemm/bf16.h"
#include "kernels/gemm/gemm.h"
#include "kernels/kernel_util.h"
#include "kernels/kv_step.h"
#include "tensor/huge_pages.h"

namespace tenon::kernels::block_matmul {
namespace {

constexpr int64_t kFewRows = 8;      // up to so many are not worth unpacking for

int64_t Align(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Sixteen columns of y.
struct Group {
  Layout layout;
  int64_t offset = 0;     // in the packed weights
  int64_t column = 0;     // first in y
  int64_t n = 0;          // at most 16
  int64_t bias = -1;      // first in biases
};

// Bytes of a quantised row, part by part.
struct RowBytes {
  int64_t x, high, low, q, scale, sums, all;
  explicit RowBytes(int64_t blocks) {
    x = 0, high = blocks * 128, low = high + blocks * 32, q = low + blocks * 32, scale = q + blocks * 64;
    sums = scale + Align(blocks * 4), all = sums + Align(blocks * 8);
  }
  RowX At(std::byte* p) const {
    return {reinterpret_cast<const float*>(p + x),     reinterpret_cast<const int8_t*>(p + high),
            reinterpret_cast<const int8_t*>(p + low),  reinterpret_cast<const int16_t*>(p + q),
            reinterpret_cast<const float*>(p + scale), reinterpret_cast<const int32_t*>(p + sums)};
  }
};

// Rows side by side in scratch, with what they are made of behind them.
struct ByteTile {
  BytesX x;
  int64_t first;   // row
};

// Bytes of a ByteTile, part by part.
struct ByteTileBytes {
  int64_t data, apart, all;
  ByteTileBytes(int64_t blocks, int64_t rows, const BytesForm& form) {
    data = Align(sizeof(ByteTile)), apart = data + Align(blocks * BytesX::BlockBytes(rows, form));
    all = apart + Align(blocks * rows * static_cast<int64_t>(sizeof(Apart)));
  }
  ByteTile* New(std::byte* p, int64_t first, int64_t rows) const {
    return new (p) ByteTile{{reinterpret_cast<uint8_t*>(p + data), reinterpret_cast<Apart*>(p + apart), 0, rows}, first};
  }
};

struct Stretch {
  int64_t first, rows;
};

// Rows in order of which only some are wanted as precisely as can be, and the stretches between them, which are cut into tiles.
struct Stretches {
  int64_t precise[kFewRows];
  Stretch between[kFewRows + 1];
  int64_t precise_count = 0, count = 0, tiles = 0, max_rows;

  Stretches(std::span<const int32_t> wanted, int64_t m, int64_t most) : max_rows(most) {
    int64_t at = 0;
    const auto add = [&](int64_t end) {
      if (end > at) between[count++] = {at, end - at}, tiles += gemm::RowTiles(end - at, max_rows).count;
      at = end + 1;
    };
    std::copy(wanted.begin(), wanted.end(), precise);
    std::sort(precise, precise + wanted.size());
    precise_count = std::unique(precise, precise + wanted.size()) - precise;
    for (int64_t i = 0; i < precise_count; ++i) add(precise[i]);
    add(m);
  }

  Stretch Tile(int64_t i) const {
    const Stretch* s = between;
    for (;; ++s) {
      const gemm::RowTiles cut(s->rows, max_rows);
      if (i < cut.count) return {s->first + cut.first(i), cut.rows(i)};
      i -= cut.count;
    }
  }
};

class Packed final : public Kernel {
 public:
  Packed(Params p, const Inner& inner, const gemm::Bf16Kernels& tiles, const BytesInner* bytes, int threads)
      : p_(std::move(p)), inner_(inner), tiles_(tiles), bytes_(bytes), threads_(std::max(1, threads)) {}

  Status Pack(const Problem& problem) {
    k_ = p_.formats[0]->RowElements(problem.in[WeightInput(0)].shape[1].value());
    blocks_ = (k_ + 31) / 32;
    exact_ = problem.attrs.Int("exact", 0) != 0 ||
             std::any_of(p_.formats.begin(), p_.formats.end(), [](const BlockFormat* f) { return f->name == "f32"; });
    std::vector<size_t> parts;   // of each group
    int64_t bytes = 0, column = 0;
    const size_t count = p_.formats.size();
    const auto add = [&](size_t part, int64_t first) {
      const int64_t n = problem.in[WeightInput(part)].shape[0].value();
      Group g{LayoutOf(*p_.formats[part]), bytes, gated() ? first : column + first, std::min<int64_t>(16, n - first), -1};
      if (problem.Has(BiasInput(part))) {
        g.bias = static_cast<int64_t>(biases_.size());
        biases_.resize(biases_.size() + 16, 0.0f);
        std::memcpy(biases_.data() + g.bias, problem.in[BiasInput(part)].data->Data<float>() + first,
                    static_cast<size_t>(g.n) * 4);
      }
      bytes += Align(g.layout.group_bytes(blocks_));
      groups_.push_back(g);
      parts.push_back(part);
    };
    for (size_t part = 0; part < (gated() ? 1 : count); ++part) {
      const int64_t n = problem.in[WeightInput(part)].shape[0].value();
      for (int64_t first = 0; first < n; first += 16) {
        add(part, first);
        if (gated()) add(1, first);
      }
      column += n;
    }
    width_ = column;
    SetForm();
    buffer_ = AllocateOnHugePages(static_cast<size_t>(bytes));
    if (buffer_ == nullptr) return ResourceLimit("no memory for {} bytes of packed weights", bytes);
    size_t at = 0;
    std::vector<int64_t> done(count, 0);
    for (const Group& g : groups_) {
      const size_t part = parts[at++];
      const View& w = *problem.in[WeightInput(part)].data;
      const uint8_t* rows[16] = {};
      for (int64_t i = 0; i < g.n; ++i) rows[i] = w.Data<uint8_t>() + (done[part] + i) * w.shape[1];
      done[part] += g.n;
      PackGroup(*p_.formats[part], g.layout, rows, k_, Data(g));
    }
    return {};
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    const int64_t m = k_ == 0 ? 0 : in[0].num_elements() / k_;
    Configured c;
    const int64_t few = std::min(m, kFewRows) * RowBytes(blocks_).all;
    int64_t bytes = few;
    if (m > kFewRows && !exact_) bytes = ManyBytes(m);
    if (m > kFewRows && !exact_ && bytes_ != nullptr) bytes = std::max(bytes, BytesScratch(m) + few);
    c.scratch_bytes = static_cast<size_t>(bytes);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    const int64_t m = k_ == 0 ? 0 : args.in[0].num_elements() / k_;
    Shape shape = args.in[0].shape;
    shape[shape.rank() - 1] = width_;
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
    if (args.Has(1) && args.in[1].num_elements() != m * width_) {
      return BadInput("the residual has shape {}; {} needed", args.in[1].shape.ToString(), shape.ToString());
    }
    if (m == 0) return {};
    const Job job{args.in[0].Data<float>(), args.Has(1) ? args.in[1].Data<float>() : nullptr, y.Data<float>(), m, args.scratch};
    if (m > kFewRows && !exact_) {
      FillsCache(args, m) ? Bytes(job, args.kv->output_rows, args.team) : Many(job, args.team);
      return {};
    }
    for (int64_t r = 0; r < m; r += kFewRows) {
      const float* residual = job.residual != nullptr ? job.residual + r * width_ : nullptr;
      Few({job.x + r * k_, residual, job.y + r * width_, std::min(kFewRows, m - r), job.scratch}, args.team);
    }
    return {};
  }

  size_t PackedBytes() const override { return buffer_->bytes() + biases_.size() * sizeof(float); }
  bool ConsumedConstant(size_t i) const override { return i >= WeightInput(0); }

 private:
  struct Job {
    const float* x;
    const float* residual;
    float* y;
    int64_t m;
    std::byte* scratch;
  };

  // Without floats, and not where AMX multiplies bf16 faster.
  void SetForm() {
    const auto any = [&](auto&& is) { return std::any_of(groups_.begin(), groups_.end(), is); };
    if (any([](const Group& g) { return g.layout.is_float(); })) bytes_ = nullptr;
    form_.halves = any([](const Group& g) { return g.layout.halves; });
    form_.zero = groups_[0].layout.zero;
    form_.has_min = any([&](const Group& g) { return g.layout.has_min || g.layout.zero != form_.zero; });
    if (form_.has_min) form_.zero = 0;
  }

  bool gated() const { return p_.gate != Gate::kNone; }
  uint8_t* Data(const Group& g) const { return static_cast<uint8_t*>(buffer_->data()) + g.offset; }
  // What is computed at once: a group, or gate and value.
  int64_t units() const { return static_cast<int64_t>(groups_.size()) / (gated() ? 2 : 1); }
  const Group& GroupAt(int64_t i) const { return groups_[static_cast<size_t>(i)]; }

  // Sums of rows [row, row + rows) become results; `i` is the (first) group.
  void Finish(const Job& job, int64_t i, int64_t row, int64_t rows, float* acc, int64_t acc_step) const {
    const Group& g = GroupAt(i);
    FinishTask t{};
    t.acc = acc, t.acc_step = acc_step, t.rows = rows, t.n = g.n;
    t.gate = static_cast<int>(p_.gate);
    t.bias = g.bias >= 0 ? biases_.data() + g.bias : nullptr;
    if (gated() && GroupAt(i + 1).bias >= 0) t.bias2 = biases_.data() + GroupAt(i + 1).bias;
    t.y = job.y + row * width_ + g.column, t.y_step = width_;
    if (job.residual != nullptr) t.residual = job.residual + row * width_ + g.column, t.residual_step = width_;
    inner_.finish(t);
  }

  // Before tile `t` of `tiles` of panel i: asks for where its results go, and for its share of the panel after this one.
  void AskFor(const Job& job, int64_t i, int64_t row, int64_t rows, int64_t t, int64_t tiles) const {
    const int64_t column = GroupAt(2 * i).column, groups = std::ssize(groups_);
    const int64_t columns = gated() || 2 * i + 1 == groups ? 16 : 32;
    for (int64_t r = row; r < row + rows; ++r) {
      for (int64_t c = 0; c < columns; c += 16) {
        __builtin_prefetch(job.y + r * width_ + column + c, 1);
        if (job.residual != nullptr) __builtin_prefetch(job.residual + r * width_ + column + c);
      }
    }
    if (2 * i + 2 >= groups) return;
    const Group &first = GroupAt(2 * i + 2), &last = GroupAt(std::min(2 * i + 3, groups - 1));
    const int64_t bytes = last.offset - first.offset + last.layout.group_bytes(blocks_);
    for (int64_t at = bytes * t / tiles / 64 * 64; at < bytes * (t + 1) / tiles; at += 64) {
      __builtin_prefetch(Data(first) + at, 0, 2);
    }
  }

  void Few(const Job& job, hw::Team& team) const {
    const RowBytes bytes(blocks_);
    RowX rows[kFewRows];
    for (int64_t r = 0; r < job.m; ++r) {
      rows[r] = bytes.At(job.scratch + r * bytes.all);
      inner_.quantize(job.x + r * k_, k_, blocks_, rows[r]);
    }
    const int64_t each = gated() ? 2 : 1;
    team.ParallelFor(units(), 1 + 65536 / (16 * k_ * each), [&](int64_t begin, int64_t end, int) {
      alignas(64) float acc[kRowsAtOnce * 32];
      for (int64_t u = begin; u < end; ++u) {
        for (int64_t r = 0; r < job.m; r += kRowsAtOnce) {
          const int64_t count = std::min<int64_t>(kRowsAtOnce, job.m - r);
          for (int64_t half = 0; half < each; ++half) {
            const Group& g = GroupAt(u * each + half);
            inner_.dot({Data(g), &g.layout, blocks_, static_cast<int>(count), rows + r, acc + half * 16, 32});
          }
          Finish(job, u * each, r, count, acc, 32);
        }
      }
    });
  }

  // Of X in bf16, and of a panel and a tile per thread.
  int64_t RowsOfX(int64_t m) const { return (m + gemm::kBf16MaxRows - 1) / gemm::kBf16MaxRows * gemm::kBf16MaxRows; }
  int64_t XBytes(int64_t m) const { return Align(RowsOfX(m) * blocks_ * 32 * (tiles_.a_f32 ? 4 : 2) + 64); }
  int64_t PanelBytes() const { return blocks_ * 2048; }
  static constexpr int64_t kTileBytes = gemm::kBf16MaxRows * gemm::kBf16Panel * 4;
  int64_t ManyBytes(int64_t m) const { return XBytes(m) + threads_ * (PanelBytes() + kTileBytes); }

  // B of panel i: where it lies, if that is pairs of bf16, or unpacked to `to`.
  gemm::Bf16Tile PanelOf(int64_t i, uint16_t* to) const {
    const Group& first = GroupAt(2 * i);
    gemm::Bf16Tile tile{};
    tile.taps = 1, tile.blocks = blocks_;
    tile.narrow = 2 * i + 1 == std::ssize(groups_);
    const Group& second = tile.narrow ? first : GroupAt(2 * i + 1);
    if (first.layout.codes == Codes::kBf16 && second.layout.codes == Codes::kBf16) {
      tile.b = reinterpret_cast<const uint16_t*>(Data(first));
      tile.b_half = (second.offset - first.offset) / 2, tile.b_block = 512;
      return tile;
    }
    tile.b = to;
    Unpack(first, to);
    if (!tile.narrow) Unpack(second, to + tile.b_half);
    return tile;
  }

  // Half of a panel.
  void Unpack(const Group& g, uint16_t* to) const {
    if (g.layout.codes != Codes::kBf16) return inner_.unpack(Data(g), g.layout, blocks_, to);
    for (int64_t b = 0; b < blocks_; ++b) std::memcpy(to + b * 1024, Data(g) + b * 1024, 1024);
  }

  // Whether panel i's sums want nothing but a bias and a residual, in all of its columns.
  bool FinishesAtOnce(int64_t i) const {
    if (tiles_.tile_finish == nullptr || gated() || 2 * i + 1 == std::ssize(groups_)) return false;
    const Group &first = GroupAt(2 * i), &second = GroupAt(2 * i + 1);
    const bool biases_beside = first.bias < 0 ? second.bias < 0 : second.bias == first.bias + 16;
    return first.n == 16 && second.n == 16 && biases_beside;
  }

  // Where and how such sums become results, from row `row` on.
  gemm::Bf16Finish ResultsOf(const Job& job, int64_t i, int64_t row) const {
    const Group& g = GroupAt(2 * i);
    gemm::Bf16Finish f{};
    f.n = 32, f.alpha = 1;
    f.lo = -std::numeric_limits<float>::infinity(), f.hi = std::numeric_limits<float>::infinity();
    f.bias = g.bias >= 0 ? biases_.data() + g.bias : nullptr;
    f.c = job.y + row * width_ + g.column, f.c_stride = width_, f.c_f32 = true;
    if (job.residual != nullptr) f.residual = job.residual + row * width_ + g.column;
    f.residual_stride = width_, f.residual_f32 = true;
    return f;
  }

  void Many(const Job& job, hw::Team& team) const {
    const int64_t depth = blocks_ * 32, element = tiles_.a_f32 ? 4 : 2;
    team.ParallelFor(job.m, std::max<int64_t>(1, 32768 / depth), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        tiles_.convert(job.x + r * k_, true, k_, job.scratch + r * depth * element, depth);
      }
    });
    const auto groups = static_cast<int64_t>(groups_.size());
    const int64_t panels = (groups + 1) / 2;
    // Scratch was sized for the threads that make() was told of.
    const int64_t grain = team.size() > threads_ ? panels : 1;
    team.ParallelFor(panels, grain, [&](int64_t begin, int64_t end, int thread) {
      std::byte* own = job.scratch + XBytes(job.m) + thread * (PanelBytes() + kTileBytes);
      if (tiles_.begin != nullptr) tiles_.begin();
      for (int64_t i = begin; i < end; ++i) {
        gemm::Bf16Tile tile = PanelOf(i, reinterpret_cast<uint16_t*>(own + kTileBytes));
        tile.a_stride = depth;
        tile.acc = reinterpret_cast<float*>(own);
        const bool at_once = FinishesAtOnce(i);
        const int64_t row_tiles = (job.m + tiles_.max_rows - 1) / tiles_.max_rows;
        for (int64_t t = 0; t < row_tiles; ++t) {
          const int64_t r = t * tiles_.max_rows;
          tile.a = job.scratch + r * depth * element;
          tile.rows = std::min(tiles_.max_rows, job.m - r);
          AskFor(job, i, r, tile.rows, t, row_tiles);
          if (at_once) {
            tiles_.tile_finish(tile, ResultsOf(job, i, r));
          } else {
            tiles_.tile(tile);
            FinishPair(job, 2 * i, tile.narrow ? 1 : 2, r, tile.rows, tile.acc);
          }
        }
      }
      if (tiles_.end != nullptr) tiles_.end();
    });
  }

  // Of a panel and the sums of two tiles, per thread.
  int64_t OwnBytes() const { return blocks_ * form_.block_bytes() + bytes_->max_rows * 256; }
  int64_t ByteTilesBytes(int64_t m) const {
    const int64_t most = m / bytes_->max_rows + kFewRows + 1;   // each stretch may end with one that is not full
    return most * ByteTileBytes(blocks_, bytes_->max_rows, form_).all;
  }
  int64_t BytesScratch(int64_t m) const { return ByteTilesBytes(m) + threads_ * Align(OwnBytes()); }

  // Whether nearly all of these rows only leave keys and values behind: the scores of a few are wanted, and those keep their
  // precision, in the step that this product belongs to.
  bool FillsCache(const RunArgs& args, int64_t m) const {
    if (bytes_ == nullptr || args.kv == nullptr || std::ssize(args.kv->output_rows) > kFewRows) return false;
    int64_t rows = 0;
    for (const KvSequence& s : args.kv->sequences) rows += s.rows;
    return rows == m &&
           std::all_of(args.kv->output_rows.begin(), args.kv->output_rows.end(), [&](int32_t r) { return r >= 0 && r < m; });
  }

  void Bytes(const Job& job, std::span<const int32_t> wanted, hw::Team& team) const {
    const ByteTileBytes tile(blocks_, bytes_->max_rows, form_);
    const RowBytes precise_row(blocks_);
    const Stretches rows(wanted, job.m, bytes_->max_rows);
    std::byte* const precise_rows = job.scratch + BytesScratch(job.m);
    RowX precise[kFewRows];
    for (int64_t i = 0; i < rows.precise_count; ++i) precise[i] = precise_row.At(precise_rows + i * precise_row.all);
    const int64_t grain = std::max<int64_t>(1, 32768 / (k_ * bytes_->max_rows));
    team.ParallelFor(rows.tiles + rows.precise_count, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        if (const int64_t p = i - rows.tiles; p >= 0) {
          inner_.quantize(job.x + rows.precise[p] * k_, k_, blocks_, precise[p]);
          continue;
        }
        const Stretch s = rows.Tile(i);
        bytes_->quantize(job.x + s.first * k_, k_, blocks_, form_, &tile.New(job.scratch + i * tile.all, s.first, s.rows)->x);
      }
    });
    const auto groups = static_cast<int64_t>(groups_.size());
    const int64_t panels = (groups + 1) / 2;
    // Scratch was sized for the threads that make() was told of.
    const int64_t panel_grain = team.size() > threads_ ? panels : 1;
    team.ParallelFor(panels, panel_grain, [&](int64_t begin, int64_t end, int thread) {
      std::byte* own = job.scratch + ByteTilesBytes(job.m) + thread * Align(OwnBytes());
      float* const sums[] = {reinterpret_cast<float*>(own), reinterpret_cast<float*>(own) + bytes_->max_rows * 32};
      auto* panel = reinterpret_cast<uint8_t*>(own + bytes_->max_rows * 256);
      for (int64_t i = 2 * begin; i < std::min(groups, 2 * end); i += 2) {
        const int64_t count = std::min<int64_t>(2, groups - i);
        for (int64_t half = 0; half < 2; ++half) {
          const Group& g = GroupAt(i + std::min(half, count - 1));
          bytes_->unpack(Data(g), g.layout, form_, blocks_, static_cast<int>(half), panel);
        }
        // A tile's sums are taken up after the next tile: the processor need not wait for them.
        const ByteTile* before = nullptr;
        for (int64_t t = 0; t < rows.tiles; ++t) {
          const auto* x = reinterpret_cast<const ByteTile*>(job.scratch + t * tile.all);
          AskFor(job, i / 2, x->first, x->x.rows, t, rows.tiles);
          bytes_->tile({panel, &form_, blocks_, &x->x, sums[t % 2]});
          if (before != nullptr) FinishPair(job, i, count, before->first, before->x.rows, sums[(t + 1) % 2]);
          before = x;
        }
        if (before != nullptr) FinishPair(job, i, count, before->first, before->x.rows, sums[(rows.tiles + 1) % 2]);
        float* acc = sums[0];
        for (int64_t p = 0; p < rows.precise_count; ++p) {
          for (int64_t half = 0; half < count; ++half) {
            const Group& g = GroupAt(i + half);
            inner_.dot({Data(g), &g.layout, blocks_, 1, precise + p, acc + half * 16, 32});
          }
          FinishPair(job, i, count, rows.precise[p], 1, acc);
        }
      }
    });
  }

  // Of groups i and, where there are two, i + 1, side by side.
  void FinishPair(const Job& job, int64_t i, int64_t count, int64_t row, int64_t rows, float* acc) const {
    Finish(job, i, row, rows, acc, 32);
    if (!gated() && count == 2) Finish(job, i + 1, row, rows, acc + 16, 32);
  }

  Params p_;
  const Inner& inner_;
  const gemm::Bf16Kernels& tiles_;
  const BytesInner* bytes_;   // null: none
  BytesForm form_;
  int threads_;
  int64_t k_ = 0, blocks_ = 0, width_ = 0;
  // Nothing is rounded to bf16, however many the rows: the weights are f32, or the attribute `exact` says so.
  bool exact_ = false;
  std::vector<Group> groups_;
  std::vector<float> biases_;
  std::shared_ptr<Buffer> buffer_;
};

const Inner& SelectInner(hw::IsaMask isa) {
#if defined(__x86_64__)
  constexpr hw::IsaMask kVnni = hw::kAvx2 | hw::kAvx512 | hw::kAvx512Vnni;
  if (hw::Covers(isa, kVnni | hw::kAvx512Bf16)) return kAvx512Bf16;
  if (hw::Covers(isa, kVnni)) return kAvx512Vnni;
  if (hw::Covers(isa, hw::kAvx2)) return kAvx2;
#endif
  return kPortable;
}

const BytesInner* SelectBytes(hw::IsaMask isa) {
#if defined(__x86_64__)
  if (hw::Covers(isa, hw::kAvx2 | hw::kAvx512 | hw::kAvx512Vnni) && !hw::Covers(isa, hw::kAmx)) return &kBytesAvx512Vnni;
#endif
  return nullptr;
}

}  // namespace

Refusal CanPacked(const Problem& p) {
  for (size_t i = WeightInput(0); i < p.in.size(); ++i) {
    if (p.Has(i) && !p.IsConst(i)) return kRefuseWeightsNotConstant;
  }
  return nullptr;
}

Result<std::unique_ptr<Kernel>> MakePacked(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.attrs));
  auto kernel = std::make_unique<Packed>(std::move(p), SelectInner(problem.isa), gemm::SelectBf16(problem.isa),
                                         SelectBytes(problem.isa), problem.threads);
  TENON_RETURN_IF_ERROR(kernel->Pack(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace tenon::kernels::block_matmul
