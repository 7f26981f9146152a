// LinearAttention and CausalConvWithState.
#include <cmath>
#include <cstring>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/llm/llm.h"

namespace tenon::kernels::llm {
namespace {

struct Linear {
  int64_t q_heads = 0, kv_heads = 0;
  float scale = 0;
  bool gated = true, delta = true;
};

Result<Linear> ParseLinear(const Attrs& attrs) {
  Linear p;
  p.q_heads = attrs.Int("q_num_heads", 0);
  p.kv_heads = attrs.Int("kv_num_heads", 0);
  p.scale = attrs.Float("scale", 0);
  if (p.q_heads < 1 || p.kv_heads < 1 || p.q_heads % p.kv_heads != 0) {
    return BadInput("q_num_heads {} and kv_num_heads {}; the first must be a positive multiple of the second", p.q_heads,
                    p.kv_heads);
  }
  const std::string rule = attrs.String("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
    return BadInput("update_rule '{}'; allowed: linear, gated, delta, gated_delta", rule);
  }
  p.gated = rule == "gated" || rule == "gated_delta";
  p.delta = rule == "delta" || rule == "gated_delta";
  return p;
}

bool IsSmallOrSingle(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
}

struct Sizes {
  int64_t batch, steps, dk, dv, decay_width, beta_width;
};

Result<Sizes> Resolve(const Linear& p, std::span<const View> in) {
  const auto has = [&](size_t i) { return i < in.size() && in[i].present(); };
  const Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape;
  Sizes s{q[0], q[1], q[2] / p.q_heads, v[2] / p.kv_heads, 0, 0};
  if (q[2] % p.q_heads != 0 || !(k == Shape({s.batch, s.steps, p.kv_heads * s.dk})) ||
      !(v == Shape({s.batch, s.steps, p.kv_heads * s.dv}))) {
    return BadInput("query {}, key {}, value {} for {} and {} heads", q.ToString(), k.ToString(), v.ToString(), p.q_heads,
                    p.kv_heads);
  }
  if (has(3) && !(in[3].shape == Shape({s.batch, p.kv_heads, s.dk, s.dv}))) {
    return BadInput("past_state of shape {}; [{}, {}, {}, {}] needed", in[3].shape.ToString(), s.batch, p.kv_heads, s.dk, s.dv);
  }
  if (has(4) != p.gated || has(5) != p.delta) return BadInput("decay and beta must be given exactly when update_rule uses them");
  for (size_t i = 4; i < 6; ++i) {
    if (!has(i)) continue;
    const Shape& d = in[i].shape;
    const int64_t other = i == 4 ? p.kv_heads * s.dk : 1;
    if (d.rank() != 3 || d[0] != s.batch || d[1] != s.steps || (d[2] != p.kv_heads && d[2] != other)) {
      return BadInput("{} of shape {}; [{}, {}, {} or {}] needed", i == 4 ? "decay" : "beta", d.ToString(), s.batch, s.steps,
                      p.kv_heads, other);
    }
    (i == 4 ? s.decay_width : s.beta_width) = d[2];
  }
  return s;
}

float At(const View& v, int64_t i) {
  return v.dtype == DType::kF32   ? v.Data<float>()[i]
         : v.dtype == DType::kF16 ? F16BitsToF32(v.Data<uint16_t>()[i])
                                  : BF16BitsToF32(v.Data<uint16_t>()[i]);
}

void Put(const MutView& v, int64_t i, float value) {
  if (v.dtype == DType::kF32) {
    v.Data<float>()[i] = value;
  } else {
    v.Data<uint16_t>()[i] = v.dtype == DType::kF16 ? F32ToF16Bits(value) : F32ToBF16Bits(value);
  }
}

class LinearAttention final : public Kernel {
 public:
  explicit LinearAttention(Linear p) : p_(p) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    TENON_ASSIGN_OR_RETURN(const Sizes s, Resolve(p_, in));
    Configured c;
    c.scratch_bytes = static_cast<size_t>(s.batch * p_.kv_heads * (s.dk + 2) * s.dv) * sizeof(float);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Sizes s, Resolve(p_, args.in));
    const int64_t work = s.steps * s.dk * s.dv * 4;
    args.team.ParallelFor(s.batch * p_.kv_heads, std::max<int64_t>(1, 20000 / std::max<int64_t>(1, work)),
                          [&](int64_t begin, int64_t end, int) {
                            for (int64_t i = begin; i < end; ++i) Head(args, s, i / p_.kv_heads, i % p_.kv_heads);
                          });
    return {};
  }

 private:
  // All steps of one key-value head, whose state lies in the scratch: S [dk][dv], then a row for the value and one for the
  // output.
  void Head(const RunArgs& args, const Sizes& s, int64_t b, int64_t h) const {
    float* state = reinterpret_cast<float*>(args.scratch) + (b * p_.kv_heads + h) * (s.dk + 2) * s.dv;
    float* value = state + s.dk * s.dv;
    float* out = value + s.dv;
    const int64_t base = (b * p_.kv_heads + h) * s.dk * s.dv;
    for (int64_t i = 0; i < s.dk * s.dv; ++i) state[i] = args.Has(3) ? At(args.in[3], base + i) : 0;
    const float scale = p_.scale != 0 ? p_.scale : 1 / std::sqrt(static_cast<float>(s.dk));
    const int64_t group = p_.q_heads / p_.kv_heads;
    for (int64_t t = 0; t < s.steps; ++t) {
      const int64_t row = b * s.steps + t;
      const int64_t key = (row * p_.kv_heads + h) * s.dk;
      for (int64_t d = 0; p_.gated && d < s.dk; ++d) {
        const bool per_head = s.decay_width == p_.kv_heads;
        const float g = std::exp(At(args.in[4], row * s.decay_width + (per_head ? h : h * s.dk + d)));
        for (int64_t m = 0; m < s.dv; ++m) state[d * s.dv + m] *= g;
      }
      for (int64_t m = 0; m < s.dv; ++m) value[m] = At(args.in[2], (row * p_.kv_heads + h) * s.dv + m);
      if (p_.delta) {
        for (int64_t d = 0; d < s.dk; ++d) {
          const float k = At(args.in[1], key + d);
          for (int64_t m = 0; m < s.dv; ++m) value[m] -= k * state[d * s.dv + m];
        }
        const float beta = At(args.in[5], row * s.beta_width + (s.beta_width == 1 ? 0 : h));
        for (int64_t m = 0; m < s.dv; ++m) value[m] *= beta;
      }
      for (int64_t d = 0; d < s.dk; ++d) {
        const float k = At(args.in[1], key + d);
        for (int64_t m = 0; m < s.dv; ++m) state[d * s.dv + m] += k * value[m];
      }
      for (int64_t g = 0; g < group; ++g) {
        const int64_t head = row * p_.q_heads + h * group + g;
        std::memset(out, 0, static_cast<size_t>(s.dv) * sizeof(float));
        for (int64_t d = 0; d < s.dk; ++d) {
          const float q = At(args.in[0], head * s.dk + d);
          for (int64_t m = 0; m < s.dv; ++m) out[m] += q * state[d * s.dv + m];
        }
        for (int64_t m = 0; Wants(args.out, 0) && m < s.dv; ++m) Put(args.out[0], head * s.dv + m, scale * out[m]);
      }
    }
    for (int64_t i = 0; Wants(args.out, 1) && i < s.dk * s.dv; ++i) Put(args.out[1], base + i, state[i]);
  }

  Linear p_;
};

class CausalConv final : public Kernel {
 public:
  explicit CausalConv(bool silu) : silu_(silu) {}

  Status Run(const RunArgs& args) const override {
    const Shape& x = args.in[0].shape;
    const int64_t channels = x[1], length = x[2], k = args.in[1].shape[2], carry = k - 1;
    args.team.ParallelFor(
        x[0] * channels, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, length * k)), [&](int64_t begin, int64_t end, int) {
          for (int64_t row = begin; row < end; ++row) {
            const int64_t c = row % channels;
        // Position i of the carried inputs followed by the new ones.
            const auto at = [&](int64_t i) {
              if (i >= carry) return At(args.in[0], row * length + i - carry);
              return args.Has(3) ? At(args.in[3], row * carry + i) : 0.0f;
            };
            const float bias = args.Has(2) ? At(args.in[2], c) : 0;
            for (int64_t t = 0; Wants(args.out, 0) && t < length; ++t) {
              float sum = bias;
              for (int64_t j = 0; j < k; ++j) sum += at(t + j) * At(args.in[1], c * k + j);
              Put(args.out[0], row * length + t, sum);
              if (!silu_) continue;
              sum = At(args.out[0], row * length + t);  // the convolution is rounded to the tensor's type before the activation
              Put(args.out[0], row * length + t, sum / (1 + std::exp(-sum)));
            }
            for (int64_t i = 0; Wants(args.out, 1) && i < carry; ++i) Put(args.out[1], row * carry + i, at(length + i));
          }
        });
    return {};
  }

 private:
  bool silu_;
};

bool Differ(const Dim& a, const Dim& b) {
  return a.is_const() && b.is_const() && !(a == b);
}

}  // namespace

Status InferLinearAttention(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Linear p, ParseLinear(args.attrs));
  const DType t = args.in[0].dtype;
  for (size_t i = 0; i < args.in.size(); ++i) {
    const DType own = args.in[i].dtype;
    if (!args.Has(i) || own == DType::kUndefined) continue;
    if (!IsSmallOrSingle(own) || (i != 3 && own != t))
      return BadInput("input {} is {} and query {}", i, DTypeName(own), DTypeName(t));
    const int rank = i == 3 ? 4 : 3;
    if (args.in[i].shape.has_rank() && args.in[i].shape.rank() != rank) {
      return BadInput("input {} has shape {}; rank {} needed", i, args.in[i].shape.ToString(), rank);
    }
  }
  const DType state = args.Has(3) ? args.in[3].dtype : t;
  const SymShape &q = args.in[0].shape, &v = args.in[2].shape;
  if (!q.has_rank() || !v.has_rank()) {
    SetOutput(args, 0, t, SymShape::OfRank(3));
    SetOutput(args, 1, state, SymShape::OfRank(4));
    return {};
  }
  const Dim dk = Dim::FloorDiv(q[2], p.q_heads), dv = Dim::FloorDiv(v[2], p.kv_heads);
  SetOutput(args, 0, t, SymShape({q[0], q[1], dv * Dim(p.q_heads)}));
  SetOutput(args, 1, state, SymShape({q[0], Dim(p.kv_heads), dk, dv}));
  return {};
}

Status InferCausalConv(const ShapeArgs& args) {
  const std::string activation = args.attrs.String("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return BadInput("activation '{}'; allowed: none, silu, swish", activation);
  }
  const DType t = args.in[0].dtype;
  for (size_t i = 0; i < args.in.size(); ++i) {
    if (args.Has(i) && (args.in[i].dtype != t || (t != DType::kUndefined && !IsSmallOrSingle(t)))) {
      return BadInput("input {} is {} and input 0 {}; float32, float16 or bfloat16 throughout needed", i,
                      DTypeName(args.in[i].dtype), DTypeName(t));
    }
  }
  const SymShape &x = args.in[0].shape, &w = args.in[1].shape;
  SetOutput(args, 0, t, x);
  SetOutput(args, 1, t, SymShape::OfRank(3));
  if (!x.has_rank() || !w.has_rank()) return {};
  const bool fits = x.rank() == 3 && w.rank() == 3 && !Differ(x[1], w[0]) && !Differ(w[1], Dim(1)) && !w[2].Is(0);
  if (!fits)
    return BadInput("input of shape {} and weight {}; [batch, c, length] and [c, 1, k] needed", x.ToString(), w.ToString());
  const SymShape state({x[0], x[1], w[2] - 1});
  const SymShape bias({x[1]});
  for (auto [i, want] : {std::pair{2, &bias}, std::pair{3, &state}}) {
    if (!args.Has(static_cast<size_t>(i)) || !args.in[static_cast<size_t>(i)].shape.has_rank()) continue;
    const SymShape& got = args.in[static_cast<size_t>(i)].shape;
    bool same = got.rank() == want->rank();
    for (int a = 0; same && a < got.rank(); ++a) same = !Differ(got[a], (*want)[a]);
    if (!same) return BadInput("input {} has shape {}; {} needed", i, got.ToString(), want->ToString());
  }
  SetOutput(args, 1, t, state);
  return {};
}

Result<std::unique_ptr<Kernel>> MakeLinearAttention(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(const Linear l, ParseLinear(p.attrs));
  return std::unique_ptr<Kernel>(new LinearAttention(l));
}

Result<std::unique_ptr<Kernel>> MakeCausalConv(const Problem& p) {
  return std::unique_ptr<Kernel>(new CausalConv(p.attrs.String("activation", "none") != "none"));
}

}  // namespace tenon::kernels::llm
