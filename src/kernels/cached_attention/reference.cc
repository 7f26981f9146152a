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

  // Key and value of one token in a block of the cache.
  template <typename E>
  void Keep(const KvStep& kv, int64_t block, int64_t g, int64_t at, const std::vector<double>& k,
            const std::vector<double>& v) const {
    const auto element = [](double x) {
      if constexpr (std::is_same_v<E, float>) return static_cast<float>(x);
      return static_cast<E>(F32ToF16Bits(static_cast<float>(x)));
    };
    for (int64_t d = 0; d < p_.dim; ++d) {
      kv.Keys<E>(block, p_.layer, g)[d * kKvBlockTokens + at] = element(k[static_cast<size_t>(d)]);
      kv.Values<E>(block, p_.layer, g)[at * p_.dim + d] = element(v[static_cast<size_t>(d)]);
    }
  }
  template <typename E>
  void Recall(const KvStep& kv, int64_t block, int64_t g, int64_t at, std::vector<double>* k, std::vector<double>* v) const {
    const auto number = [](E x) {
      if constexpr (std::is_same_v<E, float>) return x;
      return F16BitsToF32(static_cast<uint16_t>(x));
    };
    for (int64_t d = 0; d < p_.dim; ++d) {
      (*k)[static_cast<size_t>(d)] = number(kv.Keys<E>(block, p_.layer, g)[d * kKvBlockTokens + at]);
      (*v)[static_cast<size_t>(d)] = number(kv.Values<E>(block, p_.layer, g)[at * p_.dim + d]);
    }
  }

  void Sequence(const RunArgs& args, const Rows& rows, const KvSequence& s, const KvStep* kv, float* y) const {
    for (int64_t g = 0; g < p_.kv_heads; ++g) {
      std::vector<std::vector<double>> keys, values;
      for (int64_t t = 0; t < s.past + s.rows; ++t) {
        std::vector<double> k(static_cast<size_t>(p_.dim)), v(k);
        const int64_t block = kv != nullptr ? s.blocks[t / kKvBlockTokens] : 0, at = t % kKvBlockTokens;
        if (t >= s.past) {
          const int64_t row = s.first_row + t - s.past;
          k = Turned(args, rows, rows.k + row * rows.kv_step + g * p_.dim, row, 5);
          const float* from = rows.v + row * rows.kv_step + g * p_.dim;
          v.assign(from, from + p_.dim);
          if (kv != nullptr) p_.f32 ? Keep<float>(*kv, block, g, at, k, v) : Keep<uint16_t>(*kv, block, g, at, k, v);
        } else {
          p_.f32 ? Recall<float>(*kv, block, g, at, &k, &v) : Recall<uint16_t>(*kv, block, g, at, &k, &v);
        }
        keys.push_back(std::move(k));
        values.push_back(std::move(v));
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
