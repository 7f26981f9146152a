// RopeTable, and attention over a cache in its plain form: sums in double, one row and head after the other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "kernels/cached_attention/cached_attention.h"
#include "kernels/kernel_util.h"

namespace tenon::kernels::cached_attention {
namespace {

struct Rope {
  std::vector<float> freqs;
  float mscale = 1;
};

void Angles(const Rope& rope, int64_t position, float* to) {
  const size_t half = rope.freqs.size();
  for (size_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * rope.freqs[i];
    to[i] = std::cos(angle) * rope.mscale;
    to[half + i] = std::sin(angle) * rope.mscale;
  }
}

Status RunRope(const Rope& rope, const RunArgs& args) {
  const Shape& s = args.in[0].shape;
  const auto width = static_cast<int64_t>(2 * rope.freqs.size());
  Shape shape = s;
  shape.push_back(width);
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
  auto* to = y.Data<float>();
  if (args.kv != nullptr) {
    for (const KvSequence& seq : args.kv->sequences) {
      if (seq.first_row < 0 || seq.rows < 0 || seq.first_row + seq.rows > s.num_elements()) {
        return Internal("rows {} + {} of {}", seq.first_row, seq.rows, s.num_elements());
      }
      for (int64_t i = 0; i < seq.rows; ++i) Angles(rope, seq.past + i, to + (seq.first_row + i) * width);
    }
    return {};
  }
  const int64_t n = s.rank() == 0 ? 1 : s[s.rank() - 1];
  for (int64_t i = 0; i < s.num_elements(); ++i) Angles(rope, i % n, to + i * width);
  return {};
}

// The key or the value of one token, among those of one head in a block.
struct Place {
  std::byte* head;
  KvType type;
  int64_t dim, token;
  bool turned;   // keys are, values are not

  template <typename E>
  E& At(int64_t d) const {
    return reinterpret_cast<E*>(head)[turned ? d * kKvBlockTokens + token : token * dim + d];
  }
  // Of q8_0: what the block of element d is multiples of.
  uint16_t& Scale(int64_t d) const {
    return reinterpret_cast<uint16_t*>(head + dim * kKvBlockTokens)[d / kQ8Block * kKvBlockTokens + token];
  }

  void Keep(const std::vector<double>& x) const {
    float inverse = 0;   // of the scale
    for (int64_t d = 0; d < dim; ++d) {
      const auto f = static_cast<float>(x[static_cast<size_t>(d)]);
      switch (type) {
        case KvType::kF16: At<uint16_t>(d) = F32ToF16Bits(f); break;
        case KvType::kBf16: At<uint16_t>(d) = F32ToBF16Bits(f); break;
        case KvType::kF32: At<float>(d) = f; break;
        case KvType::kQ8_0:
          if (d % kQ8Block == 0) inverse = BeginBlock(x, d);
          At<int8_t>(d) = static_cast<int8_t>(std::max(-127.0f, std::nearbyint(f * inverse)));
      }
    }
  }
  std::vector<double> Recall() const {
    std::vector<double> x;
    for (int64_t d = 0; d < dim; ++d) {
      switch (type) {
        case KvType::kF16: x.push_back(F16BitsToF32(At<uint16_t>(d))); break;
        case KvType::kBf16: x.push_back(BF16BitsToF32(At<uint16_t>(d))); break;
        case KvType::kF32: x.push_back(At<float>(d)); break;
        case KvType::kQ8_0: x.push_back(At<int8_t>(d) * static_cast<double>(F16BitsToF32(Scale(d)))); break;
      }
    }
    return x;
  }

 private:
  // Sets the scale of the block that begins with element d; returns the inverse of what it was rounded from, 0 for none.
  float BeginBlock(const std::vector<double>& x, int64_t d) const {
    float most = 0, nothing = 0;   // NaN when an element is not finite
    for (int64_t i = d; i < d + kQ8Block; ++i) {
      const auto f = static_cast<float>(x[static_cast<size_t>(i)]);
      most = std::max(most, std::abs(f)), nothing += f * 0.0f;
    }
    const float scale = most / 127.0f + nothing;
    Scale(d) = F32ToF16Bits(scale);
    return scale > kLeastScale ? 1.0f / scale : 0.0f;
  }
};

class Reference final : public Kernel {
 public:
  explicit Reference(const Params& p) : p_(p) {}

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Rows rows, ResolveRows(p_, args));
    Shape shape = args.in[0].shape;
    shape[shape.rank() - 1] = p_.heads * p_.dim;
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
    if (args.kv != nullptr) {
      TENON_RETURN_IF_ERROR(CheckStep(p_, *args.kv, rows.n));
      for (const KvSequence& s : args.kv->sequences) Sequence(args, rows, s, args.kv, y.Data<float>());
      return {};
    }
    const int64_t n = rows.batch == 0 ? 0 : rows.n / rows.batch;
    for (int64_t b = 0; b < rows.batch; ++b) Sequence(args, rows, {b * n, n, 0, nullptr, 0}, nullptr, y.Data<float>());
    return {};
  }

 private:
  std::vector<double> Turned(const RunArgs& args, const Rows& rows, const float* x, int64_t row, size_t norm_input) const {
    std::vector<double> v(x, x + p_.dim);
    if (args.Has(norm_input)) {
      double squares = 0;
      for (double e : v) squares += e * e;
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(p_.dim) + p_.epsilon);
      for (size_t i = 0; i < v.size(); ++i) v[i] *= inverse * args.in[norm_input].Data<float>()[i];
    }
    const float* t = rows.table + row * 2 * rows.half;
    for (int64_t i = 0; i < rows.half; ++i) {
      const auto a = static_cast<size_t>(p_.interleaved ? 2 * i : i),
                 b = static_cast<size_t>(p_.interleaved ? 2 * i + 1 : i + rows.half);
      const double x0 = v[a], x1 = v[b];
      v[a] = x0 * t[i] - x1 * t[rows.half + i];
      v[b] = x1 * t[i] + x0 * t[rows.half + i];
    }
    return v;
  }

  void Sequence(const RunArgs& args, const Rows& rows, const KvSequence& s, const KvStep* kv, float* y) const {
    const KvShape one{1, 1, p_.dim, p_.cache};
    std::vector<std::byte> own(static_cast<size_t>(one.block_bytes()));   // without a cache: where each token passes through
    for (int64_t g = 0; g < p_.kv_heads; ++g) {
      std::vector<std::vector<double>> keys, values;
      for (int64_t t = 0; t < s.past + s.rows; ++t) {
        const int64_t block = kv != nullptr ? s.blocks[t / kKvBlockTokens] : 0, at = t % kKvBlockTokens;
        const Place key{kv != nullptr ? kv->Keys(block, p_.layer, g) : own.data(), p_.cache, p_.dim, at, true};
        const Place value{kv != nullptr ? kv->Values(block, p_.layer, g) : own.data() + one.head_bytes(), p_.cache, p_.dim, at,
                          false};
        if (t >= s.past) {
          const int64_t row = s.first_row + t - s.past, from = row * rows.kv_step + g * p_.dim;
          key.Keep(Turned(args, rows, rows.k + from, row, 5));
          value.Keep({rows.v + from, rows.v + from + p_.dim});
        }
        keys.push_back(key.Recall());
        values.push_back(value.Recall());
      }
      for (int64_t h = 0; h < p_.heads / p_.kv_heads; ++h) {
        for (int64_t i = 0; i < s.rows; ++i) {
          const int64_t row = s.first_row + i, head = g * (p_.heads / p_.kv_heads) + h;
          const auto q = Turned(args, rows, rows.q + row * rows.q_step + head * p_.dim, row, 4);
          Attend(q, keys, values, s.past + i, y + (row * p_.heads + head) * p_.dim);
        }
      }
    }
  }

  void Attend(const std::vector<double>& q, const std::vector<std::vector<double>>& keys,
              const std::vector<std::vector<double>>& values, int64_t position, float* y) const {
    const int64_t first = p_.window > 0 ? std::max<int64_t>(0, position - p_.window + 1) : 0;
    std::vector<double> scores;
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t t = first; t <= position; ++t) {
      double s = 0;
      for (size_t d = 0; d < q.size(); ++d) s += q[d] * keys[static_cast<size_t>(t)][d];
      s *= p_.scale;
      if (p_.softcap > 0) s = p_.softcap * std::tanh(s / p_.softcap);
      scores.push_back(s);
      max = std::max(max, s);
    }
    double sum = 0;
    for (double& s : scores) sum += s = std::exp(s - max);
    for (size_t d = 0; d < q.size(); ++d) {
      double v = 0;
      for (size_t t = 0; t < scores.size(); ++t) v += scores[t] * values[static_cast<size_t>(first) + t][d];
      y[d] = static_cast<float>(v / sum);
    }
  }

  Params p_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> MakeRopeTable(const Problem& problem) {
  Rope rope{problem.attrs.Floats("freqs"), problem.attrs.Float("mscale", 1)};
  if (rope.freqs.empty()) return BadInput("attribute freqs is missing");
  return std::unique_ptr<Kernel>(std::make_unique<ParamKernel<Rope, RunRope>>(std::move(rope)));
}

Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams(problem.attrs));
  return std::unique_ptr<Kernel>(std::make_unique<Reference>(p));
}

}  // namespace tenon::kernels::cached_attention
