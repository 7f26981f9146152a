// Table and shape rules of attention over a cache.
#include "kernels/cached_attention/cached_attention.h"

#include <cmath>

#include "kernels/kernel_util.h"

namespace tenon::kernels::cached_attention {
namespace {

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, needs, can, make) {group, {name, needs, can, make}},
#include "kernels/cached_attention/kernels.inc"
#undef KERNEL
};

Status CheckRows(const ValueInfo& v, const char* name, int64_t width) {
  if (v.dtype != DType::kUndefined && v.dtype != DType::kF32)
    return BadInput("{} is {}; float32 needed", name, DTypeName(v.dtype));
  if (!v.shape.has_rank()) return {};
  const int rank = v.shape.rank();
  if (rank < 2 || (v.shape[rank - 1].is_const() && v.shape[rank - 1].value() != width)) {
    return BadInput("{} has shape {}; rows of {} needed", name, v.shape.ToString(), width);
  }
  return {};
}

}  // namespace

Result<Params> ParseParams(const Attrs& attrs) {
  Params p;
  p.heads = attrs.Int("heads", 0), p.kv_heads = attrs.Int("kv_heads", p.heads), p.dim = attrs.Int("head_dim", 0);
  p.layer = attrs.Int("layer", 0), p.window = attrs.Int("window", 0);
  constexpr int64_t kMost = 1 << 16;
  if (p.heads < 1 || p.kv_heads < 1 || p.dim < 1 || p.heads > kMost || p.dim > kMost || p.heads % p.kv_heads != 0) {
    return BadInput("heads {}, kv_heads {}, head_dim {}; from 1 to {}, heads a multiple of kv_heads", p.heads, p.kv_heads, p.dim,
                    kMost);
  }
  if (p.layer < 0 || p.window < 0) return BadInput("layer {} and window {}; at least 0 needed", p.layer, p.window);
  p.scale = attrs.Float("scale", 1.0f / std::sqrt(static_cast<float>(p.dim)));
  p.softcap = attrs.Float("softcap", 0), p.epsilon = attrs.Float("epsilon", 1e-6f);
  p.interleaved = attrs.Int("interleaved", 0) != 0;
  const auto cache = ParseKvType(attrs.String("cache", "f16"), p.dim);
  if (!cache.ok()) return BadInput("{}", cache.status().message());
  p.cache = *cache;
  p.exact = p.cache == KvType::kF32 || attrs.Int("exact", 0) != 0;
  return p;
}

Status InferRopeTable(const ShapeArgs& args) {
  const auto freqs = static_cast<int64_t>(args.attrs.Floats("freqs").size());
  if (freqs < 1) return BadInput("attribute freqs is missing");
  if (!args.in[0].shape.has_rank()) {
    SetOutput(args, 0, DType::kF32, SymShape());
    return {};
  }
  std::vector<Dim> dims = args.in[0].shape.dims();
  if (dims.empty()) return BadInput("tokens are a scalar; [.., n] needed");
  dims.push_back(Dim(2 * freqs));
  SetOutput(args, 0, DType::kF32, SymShape(std::move(dims)));
  return {};
}

Status InferCachedAttention(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams(args.attrs));
  const bool packed = !args.Has(1);
  if (args.Has(1) != args.Has(2)) return BadInput("k and v go together");
  TENON_RETURN_IF_ERROR(CheckRows(args.in[0], "q", (p.heads + (packed ? 2 * p.kv_heads : 0)) * p.dim));
  if (!packed) {
    TENON_RETURN_IF_ERROR(CheckRows(args.in[1], "k", p.kv_heads * p.dim));
    TENON_RETURN_IF_ERROR(CheckRows(args.in[2], "v", p.kv_heads * p.dim));
  }
  for (size_t i : {size_t{4}, size_t{5}}) {
    if (!args.Has(i)) continue;
    const ValueInfo& w = args.in[i];
    if (w.dtype != DType::kF32 || !w.shape.has_rank() || w.shape.rank() != 1 || !w.shape[0].Is(p.dim)) {
      return BadInput("input {} is {} {}; float32 [{}] needed", i, DTypeName(w.dtype), w.shape.ToString(), p.dim);
    }
  }
  SymShape out = args.in[0].shape;
  if (out.has_rank()) out[out.rank() - 1] = Dim(p.heads * p.dim);
  SetOutput(args, 0, DType::kF32, out);
  return {};
}

Result<Rows> ResolveRows(const Params& p, const RunArgs& args) {
  const Shape& s = args.in[0].shape;
  Rows r;
  const bool packed = !args.Has(1);
  const int64_t q_width = p.heads * p.dim, kv_width = p.kv_heads * p.dim;
  r.q_step = packed ? q_width + 2 * kv_width : q_width;
  r.kv_step = packed ? r.q_step : kv_width;
  if (s.rank() < 2 || s[s.rank() - 1] != r.q_step) return BadInput("q has shape {}; rows of {} needed", s.ToString(), r.q_step);
  r.batch = s.Product(0, s.rank() - 2);
  r.n = r.batch * s[s.rank() - 2];
  r.q = args.in[0].Data<float>();
  r.k = packed ? r.q + q_width : args.in[1].Data<float>();
  r.v = packed ? r.k + kv_width : args.in[2].Data<float>();
  for (size_t i = 1; i < 3 && !packed; ++i) {
    if (args.in[i].num_elements() != r.n * kv_width)
      return BadInput("input {} has shape {} for {} rows", i, args.in[i].shape.ToString(), r.n);
  }
  r.table = nullptr, r.half = 0;
  if (args.Has(3)) {
    const Shape& t = args.in[3].shape;
    if (t.rank() < 1 || t.Product(0, t.rank() - 1) != r.n || t.dim(-1) % 2 != 0 || t.dim(-1) > p.dim) {
      return BadInput("table has shape {}; {} rows of at most {} needed", t.ToString(), r.n, p.dim);
    }
    r.table = args.in[3].Data<float>(), r.half = t.dim(-1) / 2;
  }
  return r;
}

Status CheckStep(const Params& p, const KvStep& step, int64_t rows) {
  const KvShape& kept = step.shape;
  if (kept.kv_heads != p.kv_heads || kept.head_dim != p.dim || p.layer >= kept.layers || kept.type != p.cache) {
    return Internal("a cache of {} layers, {} heads of {} {} for layer {} of {} heads of {} {}", kept.layers, kept.kv_heads,
                    kept.head_dim, KvTypeName(kept.type), p.layer, p.kv_heads, p.dim, KvTypeName(p.cache));
  }
  for (const KvSequence& s : step.sequences) {
    if (s.rows < 0 || s.first_row < 0 || s.first_row + s.rows > rows)
      return Internal("rows {} + {} of {}", s.first_row, s.rows, rows);
    if (s.past < 0 || s.past + s.rows > s.num_blocks * kKvBlockTokens) {
      return Internal("{} tokens in {} blocks", s.past + s.rows, s.num_blocks);
    }
    for (int64_t i = 0; i < s.num_blocks; ++i) {
      if (s.blocks[i] < 0 || s.blocks[i] >= step.num_blocks) return Internal("block {} of {}", s.blocks[i], step.num_blocks);
    }
  }
  return {};
}

std::span<const OpKernels> Operators() {
  static const auto attention = RowsOf(kTable, "CachedAttention");
  static const auto rope = RowsOf(kTable, "RopeTable");
  static const OpKernels operators[] = {
      {"CachedAttention", InferCachedAttention, attention, 1, 6, 1, 1},
      {"RopeTable", InferRopeTable, rope, 1, 1, 1, 1},
  };
  return operators;
}

}  // namespace tenon::kernels::cached_attention
