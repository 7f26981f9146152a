#include "kernels/random/random.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <numbers>
#include <random>

#include "kernels/element.h"
#include "kernels/kernel_util.h"

namespace tenon::kernels::random {
namespace {

enum class Kind { kUniform, kNormal, kBernoulli, kMultinomial };

struct Traits {
  Kind kind;
  bool like;  // shape from input 0
};

Traits TraitsOf(std::string_view op) {
  if (op == "Bernoulli") return {Kind::kBernoulli, true};
  if (op == "Multinomial") return {Kind::kMultinomial, true};
  return {op.starts_with("RandomNormal") ? Kind::kNormal : Kind::kUniform, op.ends_with("Like")};
}

std::array<uint32_t, 4> ElementWords(std::array<uint32_t, 2> key, uint32_t run, int64_t i) {
  return Philox({static_cast<uint32_t>(i), static_cast<uint32_t>(static_cast<uint64_t>(i) >> 32), run, 0}, key);
}

// Random bits of element `i` of run `run`.
struct Source {
  std::array<uint32_t, 2> key;
  uint32_t run;

  double Uniform(int64_t i) const { return PhiloxUniform(key, run, i); }
  // Standard normal (Box and Muller).
  double Normal(int64_t i) const {
    const auto w = ElementWords(key, run, i);
    const double radius = (static_cast<double>(w[0]) + 0.5) * 0x1p-32;
    const double angle = static_cast<double>(w[1]) * 0x1p-32;
    return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
  }
};

Result<DType> TypeOf(const Attrs& attrs, Kind kind, DType fallback) {
  const int64_t raw = attrs.Int("dtype", static_cast<int64_t>(fallback));
  const auto t = static_cast<DType>(raw);
  const bool fits = raw >= 0 && raw < 100 &&
                    (kind == Kind::kBernoulli     ? IsPlainNumeric(t)
                     : kind == Kind::kMultinomial ? t == DType::kI32 || t == DType::kI64
                                                  : IsPlainFloat(t));
  if (!fits && t != DType::kUndefined) return BadInput("dtype {}; a type this operator can give needed", raw);
  return t;
}

Status InferShape(const ShapeArgs& args, Kind kind) {
  TENON_ASSIGN_OR_RETURN(const DType t, TypeOf(args.attrs, kind, DType::kF32));
  const std::vector<int64_t> dims = args.attrs.Ints("shape");
  if (dims.size() > kMaxRank) return BadInput("attribute shape of rank {}; at most {} allowed", dims.size(), kMaxRank);
  TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(dims));
  SetOutput(args, 0, t, shape);
  return {};
}

Status InferLike(const ShapeArgs& args, Kind kind) {
  TENON_ASSIGN_OR_RETURN(const DType t, TypeOf(args.attrs, kind, args.in[0].dtype));
  SetOutput(args, 0, t, args.in[0].shape);
  return {};
}

Status InferNormal(const ShapeArgs& args) {
  return InferShape(args, Kind::kNormal);
}
Status InferUniform(const ShapeArgs& args) {
  return InferShape(args, Kind::kUniform);
}
Status InferNormalLike(const ShapeArgs& args) {
  return InferLike(args, Kind::kNormal);
}
Status InferUniformLike(const ShapeArgs& args) {
  return InferLike(args, Kind::kUniform);
}

Status CheckProbabilities(const ShapeArgs& args) {
  const DType t = args.in[0].dtype;
  if (t == DType::kUndefined || IsPlainFloat(t)) return {};
  return BadInput("input is {}; a float type needed", DTypeName(t));
}

Status InferBernoulli(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckProbabilities(args));
  return InferLike(args, Kind::kBernoulli);
}

Status InferMultinomial(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckProbabilities(args));
  TENON_ASSIGN_OR_RETURN(const DType t, TypeOf(args.attrs, Kind::kMultinomial, DType::kI32));
  const int64_t samples = args.attrs.Int("sample_size", 1);
  if (samples < 1 || samples > int64_t{1} << 30) return BadInput("sample_size {}; allowed: 1 to 2^30", samples);
  const SymShape& x = args.in[0].shape;
  if (x.has_rank() && (x.rank() != 2 || x[1].Is(0))) return BadInput("input of shape {}; [batch, classes] needed", x.ToString());
  SetOutput(args, 0, t, SymShape({x.has_rank() ? x[0] : Dim::Unknown(), Dim(samples)}));
  return {};
}

class Generator final : public Kernel {
 public:
  Generator(Traits traits, const Attrs& attrs) : traits_(traits) {
    const bool normal = traits.kind == Kind::kNormal;
    a_ = normal ? attrs.Float("mean", 0) : attrs.Float("low", 0);
    b_ = normal ? attrs.Float("scale", 1) : attrs.Float("high", 1);
    seeded_ = attrs.Has("seed");
    if (seeded_) {
      key_ = {std::bit_cast<uint32_t>(attrs.Float("seed", 0)), 0};
    } else {
      std::random_device device;
      key_ = {device(), device()};
    }
  }

  Status Run(const RunArgs& args) const override {
    const Source source{key_, seeded_ ? 0 : runs_.fetch_add(1, std::memory_order_relaxed)};
    MutView& y = args.out[0];
    if (traits_.kind == Kind::kMultinomial) {
      Multinomial(source, args.in[0], y);
      return {};
    }
    const View p = traits_.kind == Kind::kBernoulli ? args.in[0] : View{};
    args.team.ParallelFor(y.num_elements(), 4096, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) StoreDouble(y.dtype, y.data, i, One(source, p, i));
    });
    return {};
  }

 private:
  double One(const Source& source, const View& p, int64_t i) const {
    switch (traits_.kind) {
      case Kind::kNormal: return a_ + b_ * source.Normal(i);
      case Kind::kBernoulli: return source.Uniform(i) < LoadDouble(p.dtype, p.data, i) ? 1 : 0;
      default: break;
    }
    // Rounding to f32 must not reach the upper bound.
    const double v = a_ + (b_ - a_) * source.Uniform(i);
    return b_ > a_ ? std::min(v, static_cast<double>(std::nextafter(static_cast<float>(b_), static_cast<float>(a_)))) : v;
  }

  // Inverts the cumulative sum of exp(logits) of each row.
  static void Multinomial(const Source& source, const View& x, MutView& y) {
    const int64_t classes = x.shape[1];
    const int64_t samples = y.shape[1];
    std::vector<double> sums(static_cast<size_t>(classes));
    for (int64_t b = 0; b < y.shape[0]; ++b) {
      double top = -INFINITY;
      for (int64_t c = 0; c < classes; ++c) top = std::max(top, LoadDouble(x.dtype, x.data, b * classes + c));
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c)
        sums[static_cast<size_t>(c)] = sum += std::exp(LoadDouble(x.dtype, x.data, b * classes + c) - top);
      for (int64_t s = 0; s < samples; ++s) {
        const double u = source.Uniform(b * samples + s) * sum;
        const auto it = std::upper_bound(sums.begin(), sums.end(), u);
        StoreDouble(y.dtype, y.data, b * samples + s, static_cast<double>(std::min<int64_t>(it - sums.begin(), classes - 1)));
      }
    }
  }

  Traits traits_;
  double a_, b_;
  bool seeded_;
  std::array<uint32_t, 2> key_;
  mutable std::atomic<uint32_t> runs_{0};
};

Result<std::unique_ptr<Kernel>> Make(const Problem& p) {
  return std::unique_ptr<Kernel>(std::make_unique<Generator>(TraitsOf(p.op), p.attrs));
}

}  // namespace

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b), static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1],
         static_cast<uint32_t>(a)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

double PhiloxUniform(std::array<uint32_t, 2> key, uint32_t run, int64_t i) {
  const auto w = ElementWords(key, run, i);
  return static_cast<double>((uint64_t{w[0]} << 32 | w[1]) >> 11) * 0x1p-53;
}

std::span<const OpKernels> Operators() {
  static const GroupedRow table[] = {
#define KERNEL(group, name, needs, can, make) {group, {name, needs, can, make}},
#include "kernels/random/kernels.inc"
#undef KERNEL
  };
  static const std::vector<Row> rows = RowsOf(table, "Generator");
  static const std::vector<Row> dropout = RowsOf(table, "Dropout");
  static const OpKernels operators[] = {
      {"RandomNormal", InferNormal, rows, 0, 0, 1, 1, false, true},
      {"RandomUniform", InferUniform, rows, 0, 0, 1, 1, false, true},
      {"RandomNormalLike", InferNormalLike, rows, 1, 1, 1, 1, false, true},
      {"RandomUniformLike", InferUniformLike, rows, 1, 1, 1, 1, false, true},
      {"Bernoulli", InferBernoulli, rows, 1, 1, 1, 1, false, true},
      {"Multinomial", InferMultinomial, rows, 1, 1, 1, 1, false, true},
      {"Dropout", InferDropout, dropout, 1, 3, 1, 2, false, true},
  };
  return operators;
}

}  // namespace tenon::kernels::random
