// LinearRegressor and LinearClassifier: X * coefficients^T + intercepts, then labels and the post transform.
#include <algorithm>

#include "kernels/element.h"
#include "kernels/gemm/gemm.h"
#include "kernels/kernel_util.h"
#include "kernels/ml/ml.h"

namespace tenon::kernels::ml {
namespace {

struct Model {
  bool classifier = false;
  int64_t targets = 0, features = 0;
  std::vector<float> weights;      // [targets][features]
  std::vector<float> intercepts;   // [targets] or empty
  PostTransform post = PostTransform::kNone;
  bool two_scores = false;         // one score that becomes two
};

Result<Model> Load(std::string_view op, const Attrs& attrs) {
  Model m;
  m.classifier = op == "ai.onnx.ml.LinearClassifier";
  m.weights = attrs.Floats("coefficients");
  m.intercepts = attrs.Floats("intercepts");
  if (m.classifier) {
    TENON_ASSIGN_OR_RETURN(const int64_t labels, CountLabels(attrs, "classlabels_ints"));
    // One intercept for each class; without intercepts ONNX Runtime has no class at all, here there are as many as labels.
    m.targets = m.intercepts.empty() ? labels : static_cast<int64_t>(m.intercepts.size());
    if (m.targets > 1 && m.targets != labels)
      return BadInput("{} intercepts and {} class labels; equal numbers needed", m.targets, labels);
    m.two_scores = m.targets == 1 && labels == 2;
  } else {
    m.targets = attrs.Int("targets", 1);
    // ONNX Runtime leaves out intercepts that are not one for each target; an error tells more.
    if (!m.intercepts.empty() && static_cast<int64_t>(m.intercepts.size()) != m.targets) {
      return BadInput("{} intercepts for {} targets; none or one for each needed", m.intercepts.size(), m.targets);
    }
  }
  const auto n = static_cast<int64_t>(m.weights.size());
  if (m.targets < 1 || n == 0 || n % m.targets != 0) return BadInput("{} coefficients for {} targets or classes", n, m.targets);
  m.features = n / m.targets;
  TENON_ASSIGN_OR_RETURN(m.post, PostTransformFromName(attrs.String("post_transform", "NONE")));
  return m;
}

// Scores of rows [begin, end) lie in `scores`; they and the labels go to the outputs.
void Finish(const Model& m, const Labels& labels, const RunArgs& args, int64_t begin, int64_t end, float* scores) {
  const size_t at = m.classifier ? 1 : 0;
  const int64_t width = m.two_scores ? 2 : m.targets;
  for (int64_t r = begin; r < end; ++r, scores += m.targets) {
    if (m.classifier && m.targets > 1) {
      labels.Write(args.out[0], r, std::max_element(scores, scores + m.targets) - scores);
    } else if (m.classifier && m.two_scores) {
      labels.Write(args.out[0], r, scores[0] > 0 ? 1 : 0);
    } else if (m.classifier) {
      labels.WriteSign(args.out[0], r, scores[0] > 0);
    }
    if (!Wants(args.out, at)) continue;
    float two[2];
    if (m.targets > 1) {
      Apply(m.post, scores, m.targets);
      std::copy_n(scores, width, args.out[at].Data<float>() + r * width);
    } else {
      const Second second = m.post == PostTransform::kLogistic ? Second::kNegative : Second::kComplement;
      ApplyToOne(m.post, scores[0], m.two_scores ? second : Second::kNone, two);
      std::copy_n(two, width, args.out[at].Data<float>() + r * width);
    }
  }
}

Status CheckFeatures(const Model& m, const Matrix& x) {
  if (x.columns == m.features) return {};
  return BadInput("{} features for {} coefficients and {} targets or classes", x.columns, m.weights.size(), m.targets);
}

class Reference final : public Kernel {
 public:
  Reference(Model m, Labels labels) : m_(std::move(m)), labels_(std::move(labels)) {}
  Status Run(const RunArgs& args) const override {
    const Matrix x = AsMatrix(args.in[0].shape);
    TENON_RETURN_IF_ERROR(CheckFeatures(m_, x));
    std::vector<float> scores(static_cast<size_t>(m_.targets));
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t t = 0; t < m_.targets; ++t) {
        double sum = m_.intercepts.empty() ? 0 : m_.intercepts[static_cast<size_t>(t)];
        for (int64_t c = 0; c < x.columns; ++c) {
          sum += LoadDouble(args.in[0].dtype, args.in[0].data, r * x.columns + c) *
                 m_.weights[static_cast<size_t>(t * x.columns + c)];
        }
        scores[static_cast<size_t>(t)] = static_cast<float>(sum);
      }
      Finish(m_, labels_, args, r, r + 1, scores.data());
    }
    return {};
  }

 private:
  Model m_;
  Labels labels_;
};

class Fast final : public Kernel {
 public:
  Fast(Model m, Labels labels, hw::IsaMask isa, int threads)
      : m_(std::move(m)),
        labels_(std::move(labels)),
        gemm_(gemm::Select(isa)),
        threads_(std::max(1, threads)),
        packed_(static_cast<size_t>(gemm::PackedFloats(gemm_, m_.features, m_.targets))) {
    gemm::Pack(gemm_, m_.weights.data(), m_.features, m_.targets, 1, m_.features, 1.0f, packed_.data());
    block_ = std::clamp<int64_t>(4096 / m_.targets, 16, 512);
  }
  size_t PackedBytes() const override { return (packed_.size() + m_.weights.size()) * sizeof(float); }
  Result<Configured> Configure(std::span<const View>, std::span<const View>) const override {
    Configured c;
    c.scratch_bytes = sizeof(float) * static_cast<size_t>(gemm::AlignFloats(block_ * m_.targets) * threads_);
    return c;
  }
  Status Run(const RunArgs& args) const override {
    const Matrix x = AsMatrix(args.in[0].shape);
    TENON_RETURN_IF_ERROR(CheckFeatures(m_, x));
    const int64_t worth = 20000 / (m_.features * m_.targets) + 1;
    args.team.ParallelFor(x.rows, args.team.size() > threads_ ? x.rows : worth, [&](int64_t begin, int64_t end, int thread) {
      float* scores = reinterpret_cast<float*>(args.scratch) + gemm::AlignFloats(block_ * m_.targets) * thread;
      for (int64_t r = begin; r < end; r += block_) {
        gemm::Gemm g;
        g.m = std::min(block_, end - r);
        g.n = m_.targets;
        g.k = m_.features;
        g.a = args.in[0].Data<float>() + r * m_.features;
        g.a_stride = m_.features;
        g.b = packed_.data();
        g.c = scores;
        g.c_stride = m_.targets;
        g.bias = m_.intercepts.empty() ? nullptr : m_.intercepts.data();
        gemm::Run(gemm_, g);
        Finish(m_, labels_, args, r, r + g.m, scores);
      }
    });
    return {};
  }

 private:
  Model m_;
  Labels labels_;
  const gemm::MicroKernels& gemm_;
  int threads_;
  std::vector<float> packed_;
  int64_t block_;
};

Labels LabelsOf(const Model& m, const Attrs& attrs) {
  return m.classifier ? Labels(attrs, "classlabels_ints") : Labels({}, "");
}

}  // namespace

Refusal CanLinear(const Problem& p) {
  return RequireF32First(p);
}

Status InferLinearRegressor(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckNumeric(args.in[0]));
  TENON_ASSIGN_OR_RETURN(const Model m, Load("ai.onnx.ml.LinearRegressor", args.attrs));
  TENON_ASSIGN_OR_RETURN(Dim rows, RowsOf(args.in[0]));
  SetOutput(args, 0, DType::kF32, SymShape({std::move(rows), Dim(m.targets)}));
  return {};
}

Status InferLinearClassifier(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckNumeric(args.in[0]));
  TENON_ASSIGN_OR_RETURN(const Model m, Load("ai.onnx.ml.LinearClassifier", args.attrs));
  TENON_ASSIGN_OR_RETURN(Dim rows, RowsOf(args.in[0]));
  SetOutput(args, 0, LabelType(args.attrs), SymShape({rows}));
  SetOutput(args, 1, DType::kF32, SymShape({std::move(rows), Dim(m.two_scores ? 2 : m.targets)}));
  return {};
}

Result<std::unique_ptr<Kernel>> MakeLinear(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(Model m, Load(p.op, p.attrs));
  Labels labels = LabelsOf(m, p.attrs);
  return std::unique_ptr<Kernel>(std::make_unique<Fast>(std::move(m), std::move(labels), p.isa, p.threads));
}
Result<std::unique_ptr<Kernel>> MakeLinearReference(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(Model m, Load(p.op, p.attrs));
  Labels labels = LabelsOf(m, p.attrs);
  return std::unique_ptr<Kernel>(std::make_unique<Reference>(std::move(m), std::move(labels)));
}

}  // namespace tenon::kernels::ml
