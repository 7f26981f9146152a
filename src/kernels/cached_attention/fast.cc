// The fast rows: all of a step's keys and values go to the cache first (without one, to a cache of one layer in scratch), then
// the rows are shared out over the team, each against the blocks of its sequence.
#include <algorithm>
#include <cmath>

#include "kernels/cached_attention/cached_attention.h"
#include "kernels/cached_attention/tiles.h"
#include "kernels/gemm/bf16.h"
#include "kernels/kernel_util.h"

namespace tenon::kernels::cached_attention {
namespace {

constexpr int64_t kTokens = kKvBlockTokens;
constexpr int64_t kManyRows = 16;   // of one sequence: from here on in tiles
// What fewer rows see is split up, alike whatever the number of threads, into parts of at least kPartBlocks blocks each.
constexpr int64_t kMostParts = 8, kPartBlocks = 2;
constexpr int64_t kPartExtra = 16;   // floats behind the elements of a part's head

int64_t Align(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Of the cache in scratch.
KvShape OwnShape(const Params& p) {
  return {1, p.kv_heads, p.dim, p.cache};
}

// What lies where in scratch.
struct Layout {
  int64_t q = 0, keys = 0, pool = 0, table = 0, sequences = 0, parts = 0, tiles = 0, all = 0;
  int64_t blocks_each = 0;

  Layout(const Params& p, int64_t rows, int64_t batch, int threads, int64_t tile_bytes) {
    blocks_each = batch == 0 ? 0 : (rows / batch + kTokens - 1) / kTokens;
    keys = Align(rows * p.heads * p.dim * 4);
    pool = keys + Align(threads * p.dim * 4);
    table = pool + Align(batch * blocks_each * OwnShape(p).block_bytes());
    sequences = table + Align(batch * blocks_each * 4);
    parts = sequences + Align(batch * static_cast<int64_t>(sizeof(KvSequence)));
    tiles = parts + std::min(rows, kManyRows) * p.heads * kMostParts * (p.dim + kPartExtra) * 4;
    all = tiles + (rows >= kManyRows ? threads * tile_bytes : 0);
  }
};

class Fast final : public Kernel {
 public:
  Fast(const Params& p, const Inner& inner, const gemm::Bf16Kernels& tiles, int threads)
      : p_(p),
        inner_(inner),
        access_(inner.cache[static_cast<size_t>(p.cache)]),
        tiles_(tiles),
        tile_bytes_(Align(TileBytes(p, tiles))),
        threads_(std::max(1, threads)) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    const Shape& s = in[0].shape;
    if (s.rank() < 2) return BadInput("q has shape {}; at least rank 2 needed", s.ToString());
    const int64_t batch = s.Product(0, s.rank() - 2);
    Configured c;
    c.scratch_bytes = static_cast<size_t>(Layout(p_, batch * s[s.rank() - 2], batch, threads_, tile_bytes_).all);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Rows rows, ResolveRows(p_, args));
    Shape shape = args.in[0].shape;
    shape[shape.rank() - 1] = p_.heads * p_.dim;
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
    const Layout layout(p_, rows.n, rows.batch, threads_, tile_bytes_);
    KvStep own;
    if (args.kv == nullptr) own = OwnCache(rows, layout, args.scratch);
    const KvStep& step = args.kv != nullptr ? *args.kv : own;
    const int64_t layer = args.kv != nullptr ? p_.layer : 0;
    if (args.kv != nullptr) TENON_RETURN_IF_ERROR(CheckStep(p_, step, rows.n));
    auto* q = reinterpret_cast<float*>(args.scratch + layout.q);
    const Job job{args,
                  rows,
                  step,
                  layer,
                  q,
                  reinterpret_cast<float*>(args.scratch + layout.keys),
                  y.Data<float>(),
                  reinterpret_cast<float*>(args.scratch + layout.parts),
                  args.scratch + layout.tiles};
    for (const KvSequence& s : step.sequences) Prepare(job, s);
    for (const KvSequence& s : step.sequences) {
      if (s.rows >= kManyRows && p_.dim % 32 == 0 && !p_.exact) {
        Tiles(job, s);
      } else {
        Attend(job, s);
      }
    }
    return {};
  }

 private:
  struct Job {
    const RunArgs& args;
    const Rows& rows;
    const KvStep& step;
    int64_t layer;
    float* q;       // turned
    float* key;     // one a thread
    float* y;
    float* parts;
    std::byte* tiles;
  };

  KvStep OwnCache(const Rows& rows, const Layout& layout, std::byte* scratch) const {
    auto* table = reinterpret_cast<int32_t*>(scratch + layout.table);
    auto* sequences = reinterpret_cast<KvSequence*>(scratch + layout.sequences);
    const int64_t n = rows.batch == 0 ? 0 : rows.n / rows.batch;
    for (int64_t i = 0; i < rows.batch * layout.blocks_each; ++i) table[i] = static_cast<int32_t>(i);
    for (int64_t b = 0; b < rows.batch; ++b) {
      sequences[b] = {b * n, n, 0, table + b * layout.blocks_each, layout.blocks_each};
    }
    KvStep step;
    step.pool = scratch + layout.pool;
    step.num_blocks = rows.batch * layout.blocks_each;
    step.shape = OwnShape(p_);
    step.sequences = {sequences, static_cast<size_t>(rows.batch)};
    return step;
  }

  TurnTask TurnOf(const Job& job, const float* x, int64_t row, size_t norm_input, float* to) const {
    TurnTask t;
    t.x = x, t.dim = p_.dim, t.half = job.rows.half;
    t.cos = job.rows.table + row * 2 * job.rows.half, t.sin = t.cos + job.rows.half;
    t.interleaved = p_.interleaved;
    t.norm = job.args.Has(norm_input) ? job.args.in[norm_input].Data<float>() : nullptr;
    t.epsilon = p_.epsilon;
    t.to = to;
    return t;
  }

  // Turns q, and turns and stores k and v.
  void Prepare(const Job& job, const KvSequence& s) const {
    // Scratch was sized for the threads that make() was told of.
    const int64_t grain = job.args.team.size() > threads_ ? s.rows : std::max<int64_t>(1, 8192 / (p_.heads * p_.dim));
    job.args.team.ParallelFor(s.rows, grain, [&](int64_t begin, int64_t end, int thread) {
      float* key = job.key + thread * p_.dim;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = s.first_row + i, t = s.past + i;
        const float* q = job.rows.q + row * job.rows.q_step;
        for (int64_t h = 0; h < p_.heads; ++h) {
          inner_.turn(TurnOf(job, q + h * p_.dim, row, 4, job.q + (row * p_.heads + h) * p_.dim));
        }
        for (int64_t g = 0; g < p_.kv_heads; ++g) {
          const int64_t at = row * job.rows.kv_step + g * p_.dim;
          const int32_t block = s.blocks[t / kTokens];
          inner_.turn(TurnOf(job, job.rows.k + at, row, 5, key));
          access_.store(key, {job.step.Keys(block, job.layer, g), p_.dim, true}, t % kTokens);
          access_.store(job.rows.v + at, {job.step.Values(block, job.layer, g), p_.dim, false}, t % kTokens);
        }
      }
    });
  }

  // First token that the row of token `position` sees.
  int64_t FirstOf(int64_t position) const { return p_.window > 0 ? std::max<int64_t>(0, position + 1 - p_.window) : 0; }

  // Parts of a row, the same whichever step it comes in, but for steps of many rows.
  int64_t PartsOf(const KvSequence& s, int64_t position) const {
    if (s.rows >= kManyRows) return 1;
    return std::clamp<int64_t>((position + 1 - FirstOf(position)) / (kPartBlocks * kTokens), 1, kMostParts);
  }

  void Attend(const Job& job, const KvSequence& s) const {
    const int64_t group = p_.heads / p_.kv_heads, parts = PartsOf(s, s.past + s.rows - 1);   // most of them
    // With little to do, heads that share keys are split up so that every thread has work.
    const int64_t at_once = s.rows * p_.kv_heads * parts >= 4 * job.args.team.size() || job.args.team.size() == 1
                                ? std::min<int64_t>(group, kHeadsAtOnce)
                                : 1;
    const int64_t pieces = (group + at_once - 1) / at_once, tasks = s.rows * p_.kv_heads * pieces * parts;
    const int64_t flops = 4 * p_.dim * at_once * (s.past + s.rows / 2 + 1) / parts;
    job.args.team.ParallelFor(tasks, 1 + 40000 / flops, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t part = i % parts, r = i / (p_.kv_heads * pieces * parts), g = i / (pieces * parts) % p_.kv_heads;
        const int64_t first = i / parts % pieces * at_once;
        AttendPart(job, s, r, g * group + first, std::min(at_once, group - first), part);
      }
    });
    for (int64_t r = 0; r < s.rows && parts > 1; ++r) Join(job, s, r);
  }

  // Row r and heads [head, head + heads), which share keys, against a part of what the row sees; nothing where it has no such
  // part.
  void AttendPart(const Job& job, const KvSequence& s, int64_t r, int64_t head, int64_t heads, int64_t part) const {
    const int64_t position = s.past + r, parts = PartsOf(s, position), at = ((s.first_row + r) * p_.heads + head) * p_.dim;
    if (part >= parts) return;
    RowTask t;
    t.cache = CacheOf(job, s, head / (p_.heads / p_.kv_heads));
    t.first = FirstOf(position), t.last = t.fetch_end = position + 1;
    t.dim = p_.dim, t.heads = static_cast<int>(heads);
    t.q = job.q + at;
    t.scale = p_.scale, t.softcap = p_.softcap;
    t.y = job.y + at, t.y_step = p_.dim;
    t.part = parts > 1;
    if (t.part) {
      const int64_t block = t.first / kTokens, blocks = position / kTokens + 1 - block;
      t.first = std::max(t.first, (block + blocks * part / parts) * kTokens);
      t.last = std::min(t.last, (block + blocks * (part + 1) / parts) * kTokens);
      t.y = PartOf(job, r, head, part), t.y_step = kMostParts * (p_.dim + kPartExtra);
    }
    access_.row(t);
  }

  float* PartOf(const Job& job, int64_t r, int64_t head, int64_t part) const {
    return job.parts + ((r * p_.heads + head) * kMostParts + part) * (p_.dim + kPartExtra);
  }

  // The parts of row r become its row of y.
  void Join(const Job& job, const KvSequence& s, int64_t r) const {
    const int64_t dim = p_.dim, parts = PartsOf(s, s.past + r);
    for (int64_t h = 0; h < p_.heads && parts > 1; ++h) {
      float* y = job.y + ((s.first_row + r) * p_.heads + h) * dim;
      float max = kNever, sum = 0;
      for (int64_t i = 0; i < parts; ++i) max = std::max(max, PartOf(job, r, h, i)[dim]);
      std::fill(y, y + dim, 0.0f);
      for (int64_t i = 0; i < parts; ++i) {
        const float* o = PartOf(job, r, h, i);
        const float factor = std::exp(o[dim] - max);
        sum += factor * o[dim + 1];
        for (int64_t d = 0; d < dim; ++d) y[d] += factor * o[d];
      }
      const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
      for (int64_t d = 0; d < dim; ++d) y[d] *= inverse;
    }
  }

  // Later tiles see more tokens: early and late ones take turns, so that an even split of their list is one of the work.
  void Tiles(const Job& job, const KvSequence& s) const {
    const int64_t group = p_.heads / p_.kv_heads, tiles = (s.rows + kTileRows - 1) / kTileRows, step = p_.heads * p_.dim;
    const int64_t tasks = tiles * p_.kv_heads;
    job.args.team.ParallelFor(tasks, job.args.team.size() > threads_ ? tasks : 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t g = i % p_.kv_heads, t = i / p_.kv_heads, tile = t % 2 == 0 ? t / 2 : tiles - 1 - t / 2;
        const int64_t first = tile * kTileRows, at = ((s.first_row + first) * p_.heads + g * group) * p_.dim;
        const TileJob tile_job{
            &p_, CacheOf(job, s, g), job.q + at, job.y + at, step, s.past + first, std::min(kTileRows, s.rows - first), group};
        RunTile(tile_job, inner_, tiles_, job.tiles + thread * tile_bytes_);
      }
    });
  }

  Cache CacheOf(const Job& job, const KvSequence& s, int64_t g) const {
    return {job.step.pool, s.blocks, job.step.shape.block_bytes(), job.step.Keys(0, job.layer, g) - job.step.pool,
            job.step.Values(0, job.layer, g) - job.step.pool};
  }

  Params p_;
  const Inner& inner_;
  const Access& access_;   // to a cache of this type
  const gemm::Bf16Kernels& tiles_;
  int64_t tile_bytes_;
  int threads_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& problem, const Inner& inner) {
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams(problem.attrs));
  return std::unique_ptr<Kernel>(std::make_unique<Fast>(p, inner, gemm::SelectBf16(problem.isa), problem.threads));
}

}  // namespace

Refusal CanFast(const Problem& p) {
  const int64_t dim = p.attrs.Int("head_dim", 0);
  return dim % 16 == 0 && dim <= kMaxDim ? nullptr : kRefuseSize;
}

Result<std::unique_ptr<Kernel>> MakePortable(const Problem& problem) {
  return Make(problem, kPortable);
}
Result<std::unique_ptr<Kernel>> MakeAvx2(const Problem& problem) {
  return Make(problem, kAvx2);
}
Result<std::unique_ptr<Kernel>> MakeAvx512(const Problem& problem) {
  return Make(problem, kAvx512);
}

}  // namespace tenon::kernels::cached_attention
