// SVMClassifier and SVMRegressor: kernel values of each row with each support vector, then sums, votes and probabilities.
#include <algorithm>
#include <cmath>

#include "kernels/element.h"
#include "kernels/gemm/gemm.h"
#include "kernels/kernel_util.h"
#include "kernels/ml/ml.h"

namespace tenon::kernels::ml {
namespace {

enum class Kind { kLinear, kPoly, kRbf, kSigmoid };

struct Svm {
  Kind kind = Kind::kLinear;
  float gamma = 0, coef0 = 0, degree = 0;
  int64_t vectors = 0;             // 0: coefficients are the weights of a linear model
  int64_t features = 0, classes = 0, pairs = 0;
  std::vector<float> support;      // [vectors][features], or the weights [classes][features]
  std::vector<float> coefficients, rho, prob_a, prob_b;
  std::vector<int64_t> first;      // support vectors of class i: [first[i], first[i + 1])
  bool all_positive = true, one_class = false;
  PostTransform post = PostTransform::kNone;

  int64_t columns() const { return vectors > 0 ? vectors : classes; }   // of the matrix of kernel values
  bool proba() const { return !prob_a.empty(); }
  int64_t scores() const { return vectors == 0 || proba() ? classes : classes > 2 ? pairs : 2; }
};

Status LoadKernel(const Attrs& attrs, Svm* s) {
  const std::string kind = attrs.String("kernel_type", "LINEAR");
  const auto params = attrs.Floats("kernel_params");
  if (!params.empty() && params.size() < 3) return BadInput("{} kernel_params; gamma, coef0 and degree needed", params.size());
  if (!params.empty()) s->gamma = params[0], s->coef0 = params[1], s->degree = params[2];
  if (kind != "LINEAR" && kind != "POLY" && kind != "RBF" && kind != "SIGMOID") {
    return BadInput("kernel_type '{}'; allowed: LINEAR, POLY, RBF, SIGMOID", kind);
  }
  s->kind = kind == "LINEAR" ? Kind::kLinear : kind == "POLY" ? Kind::kPoly : kind == "RBF" ? Kind::kRbf : Kind::kSigmoid;
  s->support = attrs.Floats("support_vectors");
  s->coefficients = attrs.Floats("coefficients");
  s->rho = attrs.Floats("rho");
  if (s->coefficients.empty() || s->rho.empty()) return BadInput("attributes coefficients and rho must not be empty");
  TENON_ASSIGN_OR_RETURN(s->post, PostTransformFromName(attrs.String("post_transform", "NONE")));
  return {};
}

// Without support vectors the coefficients are weights, and the kernel is linear whatever the attribute says.
Status SetFeatures(Svm* s) {
  const auto given = static_cast<int64_t>(s->support.size()), weights = static_cast<int64_t>(s->coefficients.size());
  if (s->vectors > 0) {
    if (given == 0 || given % s->vectors != 0) return BadInput("{} numbers for {} support vectors", given, s->vectors);
    s->features = given / s->vectors;
    return {};
  }
  if (weights % s->classes != 0) return BadInput("{} coefficients for {} classes", weights, s->classes);
  s->features = weights / s->classes;
  s->kind = Kind::kLinear;
  s->support = s->coefficients;
  return {};
}

Result<Svm> LoadRegressorModel(const Attrs& attrs) {
  Svm s;
  TENON_RETURN_IF_ERROR(LoadKernel(attrs, &s));
  s.classes = 1;
  s.vectors = attrs.Int("n_supports", 0);
  s.one_class = attrs.Int("one_class", 0) != 0;
  if (s.vectors < 0 || (s.vectors > 0 && static_cast<size_t>(s.vectors) != s.coefficients.size())) {
    return BadInput("n_supports {} and {} coefficients; equal numbers needed", s.vectors, s.coefficients.size());
  }
  TENON_RETURN_IF_ERROR(SetFeatures(&s));
  return s;
}

Result<Svm> LoadClassifierModel(const Attrs& attrs) {
  Svm s;
  TENON_RETURN_IF_ERROR(LoadKernel(attrs, &s));
  TENON_ASSIGN_OR_RETURN(s.classes, CountLabels(attrs, "classlabels_ints"));
  if (s.classes > 65535) return BadInput("{} classes; at most 65535 allowed", s.classes);
  s.pairs = s.classes * (s.classes - 1) / 2;
  s.prob_a = attrs.Floats("prob_a");
  s.prob_b = attrs.Floats("prob_b");
  s.first = {0};
  for (const int64_t n : attrs.Ints("vectors_per_class")) {
    if (n < 0 || n > static_cast<int64_t>(s.support.size())) return BadInput("vectors_per_class holds {}", n);
    s.first.push_back(s.first.back() + n);
    if (s.first.back() > static_cast<int64_t>(s.support.size()))
      return BadInput("vectors_per_class sums up to more than there are");
  }
  s.vectors = s.first.back();
  TENON_RETURN_IF_ERROR(SetFeatures(&s));
  for (const float c : s.coefficients) s.all_positive = s.all_positive && c >= 0;
  if (s.vectors == 0) {
    s.prob_a.clear();   // a linear model has no use for them
    return s;
  }
  if (s.classes < 2 || static_cast<int64_t>(s.first.size()) != s.classes + 1) {
    return BadInput("{} vectors_per_class for {} classes; one for each of at least two needed", s.first.size() - 1, s.classes);
  }
  const auto pairs = static_cast<size_t>(s.pairs);
  if (s.coefficients.size() / static_cast<size_t>(s.vectors) < static_cast<size_t>(s.classes - 1) || s.rho.size() < pairs ||
      s.prob_a.size() != s.prob_b.size() || (s.proba() && s.prob_a.size() < pairs)) {
    return BadInput("{} coefficients, {} rho, {} prob_a and {} prob_b for {} classes and {} support vectors",
                    s.coefficients.size(), s.rho.size(), s.prob_a.size(), s.prob_b.size(), s.classes, s.vectors);
  }
  return s;
}

// Coupled probabilities of pairs to those of classes (Wu, Lin, Weng 2004, as in libsvm), in f32 as ONNX Runtime does it.
// r: [classes][classes]; q: classes * (classes + 1) floats of scratch.
void CoupleProbabilities(int64_t n, const float* r, float* q, float* p) {
  float* qp = q + n * n;
  std::fill_n(q, n * n, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    p[i] = 1.0f / static_cast<float>(n);
    for (int64_t j = 0; j < n; ++j) {
      if (j == i) continue;
      q[i * n + i] += r[j * n + i] * r[j * n + i];
      q[i * n + j] = j < i ? q[j * n + i] : -r[j * n + i] * r[i * n + j];
    }
  }
  const float eps = 0.005f / static_cast<float>(n);
  for (int loop = 0; loop < 100; ++loop) {
    float pqp = 0, worst = 0;
    for (int64_t i = 0; i < n; ++i) {
      qp[i] = 0;
      for (int64_t j = 0; j < n; ++j) qp[i] += q[i * n + j] * p[j];
      pqp += p[i] * qp[i];
    }
    for (int64_t i = 0; i < n; ++i) worst = std::max(worst, std::fabs(qp[i] - pqp));
    if (worst < eps) return;
    for (int64_t i = 0; i < n; ++i) {
      const float diff = (-qp[i] + pqp) / q[i * n + i];
      p[i] += diff;
      pqp = (pqp + diff * (diff * q[i * n + i] + 2 * qp[i])) / (1 + diff) / (1 + diff);
      for (int64_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + diff * q[i * n + j]) / (1 + diff);
        p[j] /= (1 + diff);
      }
    }
  }
}

// Four sums side by side: one alone would wait for itself.
double Dot(const float* a, const float* b, int64_t n) {
  double sum[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int64_t k = 0; k < 4; ++k) sum[k] += static_cast<double>(a[i + k]) * b[i + k];
  }
  for (; i < n; ++i) sum[0] += static_cast<double>(a[i]) * b[i];
  return sum[0] + sum[1] + sum[2] + sum[3];
}

float ToKernelValue(const Svm& s, float v) {
  switch (s.kind) {
    case Kind::kLinear: return v;
    case Kind::kPoly: return s.degree == 2 ? v * v : s.degree == 3 ? v * v * v : std::pow(v, s.degree);
    case Kind::kRbf: return std::exp(-s.gamma * v);
    case Kind::kSigmoid: return std::tanh(v);
  }
  return v;
}

// Scratch of one thread, in floats: see Rows.
struct Work {
  float* rows;      // [block][features], for inputs that are not f32
  float* kernels;   // [block][columns]
  float* scores;    // [max(pairs, classes, 2)]
  float* votes;     // [classes]
  float* pairwise;  // [classes][classes], then CoupleProbabilities' scratch
};

class SvmKernel final : public Kernel {
 public:
  SvmKernel(Svm s, Labels labels, bool classifier, bool fast, hw::IsaMask isa, int threads)
      : s_(std::move(s)),
        labels_(std::move(labels)),
        classifier_(classifier),
        fast_(fast),
        gemm_(gemm::Select(isa)),
        threads_(std::max(1, threads)),
        lanes_((s_.columns() + kLanes - 1) / kLanes) {
    block_ = std::clamp<int64_t>((int64_t{1} << 16) / (s_.columns() + s_.features), 1, 64);
    const bool scaled = s_.kind == Kind::kPoly || s_.kind == Kind::kSigmoid;
    if (!fast_) return;
    if (s_.kind == Kind::kRbf) {
      // Support vectors side by side: differences of one feature with kLanes vectors are one step.
      packed_.assign(static_cast<size_t>(lanes_ * kLanes * s_.features), 0.0f);
      for (int64_t v = 0; v < s_.columns(); ++v) {
        for (int64_t f = 0; f < s_.features; ++f) {
          packed_[static_cast<size_t>((v / kLanes * s_.features + f) * kLanes + v % kLanes)] = Support(v, f);
        }
      }
      return;
    }
    packed_.resize(static_cast<size_t>(gemm::PackedFloats(gemm_, s_.features, s_.columns())));
    gemm::Pack(gemm_, s_.support.data(), s_.features, s_.columns(), 1, s_.features, scaled ? s_.gamma : 1.0f, packed_.data());
    bias_.assign(static_cast<size_t>(s_.columns()), scaled ? s_.coef0 : s_.vectors > 0 ? 0.0f : s_.rho[0]);
  }

  size_t PackedBytes() const override { return (packed_.size() + s_.support.size() + s_.coefficients.size()) * sizeof(float); }

  Result<Configured> Configure(std::span<const View>, std::span<const View>) const override {
    Configured c;
    c.scratch_bytes = ThreadFloats() * sizeof(float) * static_cast<size_t>(threads_);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    const Matrix x = AsMatrix(args.in[0].shape);
    if (x.columns != s_.features) return BadInput("{} features; the support vectors have {}", x.columns, s_.features);
    const int64_t worth = 20000 / (s_.features * s_.columns()) + 1;
    args.team.ParallelFor(x.rows, args.team.size() > threads_ ? x.rows : worth, [&](int64_t begin, int64_t end, int thread) {
      const Work w = WorkOf(reinterpret_cast<float*>(args.scratch) + ThreadFloats() * static_cast<size_t>(thread));
      for (int64_t r = begin; r < end; r += block_) {
        const int64_t rows = std::min(block_, end - r);
        Kernels(args.in[0], r, rows, w);
        for (int64_t i = 0; i < rows; ++i) {
          const float* kernels = w.kernels + i * s_.columns();
          classifier_ ? Classify(args, r + i, kernels, w) : Regress(args, r + i, kernels);
        }
      }
    });
    return {};
  }

 private:
  static constexpr int64_t kLanes = 16;

  float Support(int64_t v, int64_t f) const { return s_.support[static_cast<size_t>(v * s_.features + f)]; }
  int64_t ScoreFloats() const { return std::max({s_.pairs, s_.classes, int64_t{2}}); }
  int64_t PairwiseFloats() const { return s_.proba() ? s_.classes * (2 * s_.classes + 1) : 0; }
  size_t ThreadFloats() const {
    return static_cast<size_t>(gemm::AlignFloats(block_ * s_.features) + gemm::AlignFloats(block_ * s_.columns()) +
                               gemm::AlignFloats(ScoreFloats()) + gemm::AlignFloats(s_.classes) +
                               gemm::AlignFloats(PairwiseFloats()));
  }
  Work WorkOf(float* at) const {
    Work w;
    w.rows = at;
    w.kernels = w.rows + gemm::AlignFloats(block_ * s_.features);
    w.scores = w.kernels + gemm::AlignFloats(block_ * s_.columns());
    w.votes = w.scores + gemm::AlignFloats(ScoreFloats());
    w.pairwise = w.votes + gemm::AlignFloats(s_.classes);
    return w;
  }

  // kernels[i][v] for rows [row, row + n).
  void Kernels(const View& x, int64_t row, int64_t n, const Work& w) const {
    const float* rows = w.rows;
    if (x.dtype == DType::kF32) {
      rows = x.Data<float>() + row * s_.features;
    } else {
      for (int64_t i = 0; i < n; ++i) LoadRow(x, row + i, s_.features, w.rows + i * s_.features);
    }
    const int64_t columns = s_.columns();
    if (!fast_) {
      for (int64_t i = 0; i < n * columns; ++i) w.kernels[i] = Slow(rows + i / columns * s_.features, i % columns);
    } else if (s_.kind == Kind::kRbf) {
      for (int64_t i = 0; i < n; ++i) Distances(rows + i * s_.features, w.kernels + i * columns);
    } else {
      gemm::Gemm g;
      g.m = n, g.n = columns, g.k = s_.features;
      g.a = rows, g.a_stride = s_.features;
      g.b = packed_.data();
      g.c = w.kernels, g.c_stride = columns;
      g.bias = bias_.data();
      gemm::Run(gemm_, g);
    }
    if (s_.kind == Kind::kLinear) return;
    for (int64_t i = 0; i < n * columns; ++i) w.kernels[i] = ToKernelValue(s_, w.kernels[i]);
  }

  float Slow(const float* x, int64_t v) const {
    double sum = 0;
    for (int64_t f = 0; f < s_.features; ++f) {
      const double a = x[f], b = Support(v, f);
      sum += s_.kind == Kind::kRbf ? (a - b) * (a - b) : a * b;
    }
    if (s_.kind == Kind::kPoly || s_.kind == Kind::kSigmoid) sum = s_.gamma * sum + s_.coef0;
    if (s_.vectors == 0) sum += s_.rho[0];
    return static_cast<float>(sum);
  }

  void Distances(const float* x, float* out) const {
    for (int64_t l = 0; l < lanes_; ++l) {
      float sum[kLanes] = {};
      const float* support = packed_.data() + l * s_.features * kLanes;
      for (int64_t f = 0; f < s_.features; ++f, support += kLanes) {
        for (int64_t k = 0; k < kLanes; ++k) {
          const float d = x[f] - support[k];
          sum[k] += d * d;
        }
      }
      std::copy_n(sum, std::min(kLanes, s_.columns() - l * kLanes), out + l * kLanes);
    }
  }

  void Regress(const RunArgs& args, int64_t row, const float* kernels) const {
    float y = kernels[0];   // linear: the bias is in it
    if (s_.vectors > 0) {
      y = static_cast<float>(s_.rho[0] + Dot(kernels, s_.coefficients.data(), s_.vectors));
    }
    // ONNX Runtime knows no post transform here.
    args.out[0].Data<float>()[row] = s_.one_class ? (y > 0 ? 1.0f : -1.0f) : y;
  }

  // One score for each pair of classes, and a vote of each.
  void Pairs(const float* kernels, const Work& w) const {
    std::fill_n(w.votes, s_.classes, 0.0f);
    int64_t pair = 0;
    for (int64_t i = 0; i < s_.classes; ++i) {
      for (int64_t j = i + 1; j < s_.classes; ++j, ++pair) {
        const float* of_i = s_.coefficients.data() + s_.vectors * (j - 1);
        const float* of_j = s_.coefficients.data() + s_.vectors * i;
        const int64_t a = First(i), b = First(j);
        const double sum = s_.rho[static_cast<size_t>(pair)] + Dot(of_i + a, kernels + a, First(i + 1) - a) +
                           Dot(of_j + b, kernels + b, First(j + 1) - b);
        w.scores[pair] = static_cast<float>(sum);
        w.votes[sum > 0 ? i : j] += 1;
      }
    }
  }
  int64_t First(int64_t c) const { return s_.first[static_cast<size_t>(c)]; }

  void Probabilities(const Work& w) const {
    const int64_t n = s_.classes;
    int64_t pair = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j, ++pair) {
        const auto at = static_cast<size_t>(pair);
        const float p = 1 - Logistic(w.scores[pair] * s_.prob_a[at] + s_.prob_b[at]);
        w.pairwise[i * n + j] = std::min(std::max(p, 1e-7f), 1 - 1e-7f);
        w.pairwise[j * n + i] = 1 - w.pairwise[i * n + j];
      }
      w.pairwise[i * n + i] = 0;
    }
    CoupleProbabilities(n, w.pairwise, w.pairwise + n * n, w.scores);
  }

  void Classify(const RunArgs& args, int64_t row, const float* kernels, const Work& w) const {
    const bool linear = s_.vectors == 0;
    float top = 0;
    int64_t best = 0;
    if (linear) {
      std::copy_n(kernels, s_.classes, w.scores);
      best = std::max_element(w.scores, w.scores + s_.classes) - w.scores;
      top = w.scores[best];
    } else {
      Pairs(kernels, w);
      best = std::max_element(w.votes, w.votes + s_.classes) - w.votes;
      if (s_.proba()) Probabilities(w);
    }
    // Of two classes ONNX Runtime takes the second when the score, or the greater of two, is positive.
    if (s_.classes == 2 && !s_.proba() && (s_.all_positive ? top >= 0.5f : top > 0)) best = 1;
    labels_.Write(args.out[0], row, best);
    if (!Wants(args.out, 1)) return;
    float* out = args.out[1].Data<float>() + row * s_.scores();
    const int64_t n = linear || s_.proba() ? s_.classes : s_.pairs;
    if (n > 1) {
      Apply(s_.post, w.scores, n);
      std::copy_n(w.scores, n, out);
    } else {
      const bool negative = s_.post == PostTransform::kNone || s_.post == PostTransform::kLogistic;
      const Second second = linear ? Second::kNone : negative ? Second::kNegative : Second::kComplement;
      ApplyToOne(s_.post, w.scores[0], second, out);
    }
  }

  Svm s_;
  Labels labels_;
  bool classifier_, fast_;
  const gemm::MicroKernels& gemm_;
  int threads_;
  int64_t lanes_, block_ = 1;
  std::vector<float> packed_, bias_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& p, bool fast) {
  const bool classifier = p.op == "ai.onnx.ml.SVMClassifier";
  TENON_ASSIGN_OR_RETURN(Svm s, classifier ? LoadClassifierModel(p.attrs) : LoadRegressorModel(p.attrs));
  Labels labels = classifier ? Labels(p.attrs, "classlabels_ints") : Labels({}, "");
  return std::unique_ptr<Kernel>(
      std::make_unique<SvmKernel>(std::move(s), std::move(labels), classifier, fast, p.isa, p.threads));
}

}  // namespace

Refusal CanSvm(const Problem& p) {
  return RequireF32First(p);
}

Status InferSvmRegressor(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckNumeric(args.in[0]));
  TENON_ASSIGN_OR_RETURN(Dim rows, RowsOf(args.in[0]));
  SetOutput(args, 0, DType::kF32, SymShape({std::move(rows), Dim(1)}));
  return {};
}

Status InferSvmClassifier(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckNumeric(args.in[0]));
  TENON_ASSIGN_OR_RETURN(const Svm s, LoadClassifierModel(args.attrs));
  TENON_ASSIGN_OR_RETURN(Dim rows, RowsOf(args.in[0]));
  SetOutput(args, 0, LabelType(args.attrs), SymShape({rows}));
  SetOutput(args, 1, DType::kF32, SymShape({std::move(rows), Dim(s.scores())}));
  return {};
}

Result<std::unique_ptr<Kernel>> MakeSvm(const Problem& p) {
  return Make(p, true);
}
Result<std::unique_ptr<Kernel>> MakeSvmReference(const Problem& p) {
  return Make(p, false);
}

}  // namespace tenon::kernels::ml
