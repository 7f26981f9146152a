// Attributes, shape rules and operands of attention.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/attention/attention.h"
#include "kernels/float_io.h"
#include "kernels/kernel_util.h"

namespace tenon::kernels::attention {
namespace {

constexpr int64_t kMaxHeads = int64_t{1} << 20;

Status CheckHeads(const char* name, int64_t v, int64_t least) {
  return v < least || v > kMaxHeads ? BadInput("{} is {}; allowed: {} to {}", name, v, least, kMaxHeads) : Status();
}

}  // namespace

Result<AttentionParams> ParseAttention(std::string_view op, const Attrs& attrs) {
  AttentionParams p;
  p.fused = op == "FusedAttention";
  p.heads = attrs.Int(p.fused ? "num_heads" : "q_num_heads", 0);
  p.kv_heads = attrs.Int("kv_num_heads", p.fused ? p.heads : 0);
  TENON_RETURN_IF_ERROR(CheckHeads("num_heads", p.heads, p.fused ? 1 : 0));
  TENON_RETURN_IF_ERROR(CheckHeads("kv_num_heads", p.kv_heads, p.fused ? 1 : 0));
  p.has_scale = attrs.Has("scale");
  p.scale = attrs.Float("scale", 0);
  p.softcap = attrs.Float("softcap", 0);
  if (!(p.softcap >= 0)) return BadInput("softcap is {}; allowed: 0 or more", p.softcap);
  const int64_t causal = attrs.Int("is_causal", 0);
  if (causal < 0 || causal > (p.fused ? 2 : 1)) return BadInput("is_causal is {}; allowed: 0 to {}", causal, p.fused ? 2 : 1);
  p.causal = static_cast<int>(causal);
  p.left_window = attrs.Int("left_window_size", -1);
  p.right_window = attrs.Int("right_window_size", -1);
  if (p.left_window < -1 || p.right_window < -1) return BadInput("window sizes are -1 or more");
  constexpr int64_t kFar = int64_t{1} << 40;  // beyond any sequence: keeps sums of positions in range
  p.left_window = std::min(p.left_window, kFar);
  p.right_window = std::min(p.right_window, kFar);
  const int64_t mode = attrs.Int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) return BadInput("qk_matmul_output_mode is {}; allowed: 0 to 3", mode);
  p.qk_output_mode = static_cast<int>(mode);
  const int64_t rank = attrs.Int("out_rank", 0);
  if (rank != 0 && rank != 3 && rank != 4) return BadInput("out_rank is {}; allowed: 3, 4", rank);
  p.out_rank = static_cast<int>(rank);
  return p;
}

namespace {

// One of q, k, v: [batch, seq, heads * dim] or [batch, heads, seq, dim].
struct Operand {
  int64_t batch = 0, heads = 0, seq = 0, dim = 0;
  Strides step;
};

Result<Operand> ReadOperand(const char* name, const Shape& s, int64_t heads) {
  Operand o;
  if (s.rank() == 3) {
    if (heads < 1) return BadInput("{} has rank 3, so the number of heads must be given", name);
    if (s[2] % heads != 0) return BadInput("{} is {}; its last extent must be a multiple of {} heads", name, s.ToString(), heads);
    o = {s[0], heads, s[1], s[2] / heads, {s[1] * s[2], s[2] / heads, s[2]}};
  } else if (s.rank() == 4) {
    if (heads != 0 && heads != s[1])
      return BadInput("{} is {}; allowed with {} heads: [batch, {}, ...]", name, s.ToString(), heads, heads);
    o = {s[0], s[1], s[2], s[3], {s[1] * s[2] * s[3], s[2] * s[3], s[3]}};
  } else {
    return BadInput("{} has rank {}; allowed: 3, 4", name, s.rank());
  }
  return o;
}

Status ReadMask(const AttentionParams& params, const View& mask, DType type, Core* core) {
  const Shape& s = mask.shape;
  if (mask.dtype != DType::kBool && mask.dtype != type) {
    return BadInput("mask is {}; allowed: bool, {}", DTypeName(mask.dtype), DTypeName(type));
  }
  if (s.rank() < 1 || s.rank() > 4) return BadInput("mask has rank {}; allowed: 1 to 4", s.rank());
  const int64_t want[4] = {core->batch, core->heads, core->q_len, core->k_len};
  int64_t* steps[4] = {&core->mask_batch, &core->mask_head, &core->mask_seq, &core->mask_key};
  int64_t stride = 1;
  for (int i = 0; i < s.rank(); ++i) {
    const int d = 3 - i;
    const int64_t e = s[s.rank() - 1 - i];
    // ONNX lets the last extent be short and masks the rest; FusedAttention broadcasts it.
    const bool short_keys = d == 3 && !params.fused && e <= want[3];
    if (e != want[d] && e != 1 && !short_keys) {
      return BadInput("mask is {}; it must broadcast to [{}, {}, {}, {}]", s.ToString(), want[0], want[1], want[2], want[3]);
    }
    *steps[d] = e == 1 && !(d == 3 && !params.fused) ? 0 : stride;
    if (d == 3 && !params.fused) core->mask_len = e;
    stride *= e;
  }
  core->mask_is_bool = mask.dtype == DType::kBool;
  return {};
}

bool Present(std::span<const View> in, size_t i) {
  return i < in.size() && in[i].present();
}

// Input places differ: FusedAttention has no cache.
constexpr size_t kMask = 3, kPastKey = 4, kPastValue = 5, kLens = 6;

Status ReadCache(const AttentionParams& params, std::span<const View> in, Core* c) {
  if (params.fused) return {};
  if (Present(in, kPastKey) != Present(in, kPastValue)) return BadInput("past_key and past_value must be given together");
  if (Present(in, kPastKey)) {
    const Shape &k = in[kPastKey].shape, &v = in[kPastValue].shape;
    const bool ok = k.rank() == 4 && v.rank() == 4 && k[0] == c->batch && v[0] == c->batch && k[1] == c->kv_heads &&
                    v[1] == c->kv_heads && k[2] == v[2] && k[3] == c->dim && v[3] == c->v_dim;
    if (!ok || in[kPastKey].dtype != in[0].dtype || in[kPastValue].dtype != in[0].dtype) {
      return BadInput("past_key {} and past_value {} do not go with [{}, {}, past, {}] and [..., {}]", k.ToString(), v.ToString(),
                      c->batch, c->kv_heads, c->dim, c->v_dim);
    }
    c->offset = k[2];
    c->k_len += k[2];
  }
  if (Present(in, kLens)) {
    const View& lens = in[kLens];
    if (Present(in, kPastKey)) return BadInput("nonpad_kv_seqlen does not go with past_key");
    if (lens.dtype != DType::kI64 || lens.shape.rank() != 1 || lens.shape[0] != c->batch) {
      return BadInput("nonpad_kv_seqlen is {} {}; allowed: int64 [{}]", DTypeName(lens.dtype), lens.shape.ToString(), c->batch);
    }
  }
  return {};
}

}  // namespace

Result<Core> ResolveShapes(const AttentionParams& params, std::span<const View> in) {
  Core c;
  Operand q, k, v;
  if (params.fused && !Present(in, 1)) {
    const Shape& s = in[0].shape;
    const int64_t all = params.heads + 2 * params.kv_heads;
    if (Present(in, 2)) return BadInput("k is absent, v is not");
    if (s.rank() != 3 || s[2] % all != 0) return BadInput("packed q is {}; allowed: [batch, seq, {} * dim]", s.ToString(), all);
    q = k = v = {s[0], params.heads, s[1], s[2] / all, {s[1] * s[2], s[2] / all, s[2]}};
    k.heads = v.heads = params.kv_heads;
  } else {
    if (!Present(in, 1) || !Present(in, 2)) return BadInput("k and v must be given together");
    TENON_ASSIGN_OR_RETURN(q, ReadOperand("q", in[0].shape, params.heads));
    TENON_ASSIGN_OR_RETURN(k, ReadOperand("k", in[1].shape, params.kv_heads));
    TENON_ASSIGN_OR_RETURN(v, ReadOperand("v", in[2].shape, params.kv_heads));
    if (in[1].dtype != in[0].dtype || in[2].dtype != in[0].dtype) {
      return Unsupported("q, k and v are {}, {} and {}; served: one type", DTypeName(in[0].dtype), DTypeName(in[1].dtype),
                         DTypeName(in[2].dtype));
    }
  }
  if (q.batch != k.batch || q.batch != v.batch || k.heads != v.heads || k.seq != v.seq || q.dim != k.dim || k.heads == 0 ||
      q.heads % k.heads != 0) {
    return BadInput("q, k and v do not fit: batch {} {} {}, heads {} {} {}, length {} {} {}, dim {} {}", q.batch, k.batch,
                    v.batch, q.heads, k.heads, v.heads, q.seq, k.seq, v.seq, q.dim, k.dim);
  }
  c.batch = q.batch, c.heads = q.heads, c.kv_heads = k.heads, c.q_len = q.seq, c.k_len = k.seq, c.dim = q.dim, c.v_dim = v.dim;
  c.q_step = q.step, c.k_step = k.step, c.v_step = v.step;
  const int rank = params.out_rank != 0 ? params.out_rank : in[0].shape.rank();
  const int64_t width = c.heads * c.v_dim;
  c.y_step = rank == 3 ? Strides{c.q_len * width, c.v_dim, width} : Strides{c.q_len * width, c.q_len * c.v_dim, c.v_dim};
  TENON_RETURN_IF_ERROR(ReadCache(params, in, &c));
  c.mask_len = c.k_len;
  if (Present(in, kMask)) TENON_RETURN_IF_ERROR(ReadMask(params, in[kMask], in[0].dtype, &c));
  c.scale = params.has_scale ? params.scale : c.dim == 0 ? 1.0f : static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.dim)));
  c.softcap = params.softcap;
  c.causal = params.causal != 0;
  if (params.causal == 2) c.offset = c.k_len - c.q_len;
  c.left_window = params.left_window, c.right_window = params.right_window;
  return c;
}

size_t PresentBytes(const Core& core, std::span<const View> in, bool present_key, bool present_value) {
  if (!Present(in, kPastKey)) return 0;
  const int64_t rows = core.batch * core.kv_heads * core.k_len;
  return DTypeBytes(in[0].dtype, (present_key ? 0 : rows * core.dim) + (present_value ? 0 : rows * core.v_dim));
}

namespace {

// dst[b][g] = past[b][g] then fresh[b][g]: rows of `dim` elements.
void Join(const Core& c, const View& past, const View& fresh, Strides step, int64_t dim, char* dst) {
  const size_t size = DTypeBytes(fresh.dtype, 1);
  const int64_t old = past.present() ? past.shape[2] : 0;
  for (int64_t bg = 0; bg < c.batch * c.kv_heads; ++bg) {
    const size_t bytes = static_cast<size_t>(old * dim) * size;
    if (old > 0) std::memcpy(dst, static_cast<const char*>(past.data) + static_cast<size_t>(bg) * bytes, bytes);
    dst += bytes;
    for (int64_t j = 0; j < c.k_len - old; ++j) {
      const int64_t at = bg / c.kv_heads * step.batch + bg % c.kv_heads * step.head + j * step.seq;
      std::memcpy(dst, static_cast<const char*>(fresh.data) + static_cast<size_t>(at) * size, static_cast<size_t>(dim) * size);
      dst += static_cast<size_t>(dim) * size;
    }
  }
}

Status TakePresent(const RunArgs& args, Core* c, std::byte* spare) {
  const std::span<const MutView> out = args.out;
  const bool past = args.Has(kPastKey);
  for (size_t i = 1; i <= 2; ++i) {
    if (!past && !Wants(out, i)) continue;
    const int64_t dim = i == 1 ? c->dim : c->v_dim;
    char* dst = reinterpret_cast<char*>(spare);
    if (Wants(out, i)) {
      TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, i, {c->batch, c->kv_heads, c->k_len, dim}));
      dst = y.Data<char>();
    } else {
      spare += DTypeBytes(args.in[0].dtype, c->batch * c->kv_heads * c->k_len * dim);
    }
    Strides& step = i == 1 ? c->k_step : c->v_step;
    Join(*c, past ? args.in[i + 3] : View{}, args.in[i], step, dim, dst);
    (i == 1 ? c->k : c->v) = dst;
    step = {c->kv_heads * c->k_len * dim, c->k_len * dim, dim};
  }
  return {};
}

}  // namespace

Result<Core> Resolve(const AttentionParams& params, const RunArgs& args, std::byte* spare) {
  TENON_ASSIGN_OR_RETURN(Core c, ResolveShapes(params, args.in));
  const bool rank3 = (params.out_rank != 0 ? params.out_rank : args.in[0].shape.rank()) == 3;
  const Shape shape = rank3 ? Shape{c.batch, c.q_len, c.heads * c.v_dim} : Shape{c.batch, c.heads, c.q_len, c.v_dim};
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
  c.y = y.data;
  c.q = args.in[0].data;
  if (args.Has(1)) {
    c.k = args.in[1].data, c.v = args.in[2].data;
  } else {
    const size_t head = DTypeBytes(args.in[0].dtype, c.dim);
    c.k = static_cast<const char*>(c.q) + static_cast<size_t>(c.heads) * head;
    c.v = static_cast<const char*>(c.k) + static_cast<size_t>(c.kv_heads) * head;
  }
  if (args.Has(kMask)) c.mask = args.in[kMask].data;
  if (params.fused) return c;
  if (args.Has(kLens)) {
    c.kv_lens = args.in[kLens].Data<int64_t>();
    for (int64_t b = 0; b < c.batch; ++b) {
      if (c.kv_lens[b] < 0 || c.kv_lens[b] > c.k_len) {
        return BadInput("nonpad_kv_seqlen[{}] is {}; allowed: 0 to {}", b, c.kv_lens[b], c.k_len);
      }
    }
  }
  TENON_RETURN_IF_ERROR(TakePresent(args, &c, spare));
  return c;
}

}  // namespace tenon::kernels::attention
