// TreeEnsemble, TreeEnsembleRegressor, TreeEnsembleClassifier: the reference, which walks the description node by node, and the
// row that walks a Forest for blocks of rows.
#include "kernels/ml/trees.h"

#include <algorithm>
#include <cmath>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/ml/forest.h"

namespace tenon::kernels::ml {
namespace {

enum class Op { kEnsemble, kRegressor, kClassifier };

Op OpOf(std::string_view name) {
  if (name == "ai.onnx.ml.TreeEnsemble") return Op::kEnsemble;
  return name == "ai.onnx.ml.TreeEnsembleRegressor" ? Op::kRegressor : Op::kClassifier;
}

Result<TreeSpec> Load(Op op, const Attrs& attrs, DType round_to) {
  if (op == Op::kEnsemble) return LoadTreeEnsemble(attrs, round_to);
  return op == Op::kRegressor ? LoadRegressor(attrs, round_to) : LoadClassifier(attrs, round_to);
}

template <typename T>
void Add(Aggregate aggregate, T weight, T* score, uint8_t* has) {
  switch (aggregate) {
    case Aggregate::kMin: *score = *has == 0 || weight < *score ? weight : *score; break;
    case Aggregate::kMax: *score = *has == 0 || weight > *score ? weight : *score; break;
    default: *score += weight; break;
  }
  *has = 1;
}

// What all three operators and both rows have in common; T is the type of thresholds and sums.
template <typename T>
class TreeKernel : public Kernel {
 public:
  TreeKernel(const TreeSpec& spec, const Attrs& attrs, Op op)
      : targets_(spec.targets),
        features_(spec.features),
        aggregate_(spec.aggregate),
        finish_(spec, attrs, op == Op::kClassifier),
        classifier_(op == Op::kClassifier) {}

 protected:
  Status CheckWidth(const Matrix& x) const {
    if (x.columns >= features_) return {};
    return BadInput("rows of {} features; the trees read feature {}", x.columns, features_ - 1);
  }
  void Finish(const RunArgs& args, int64_t row, T* scores, uint8_t* has) const {
    finish_.Finish(scores, has, row, classifier_ && args.out[0].present() ? &args.out[0] : nullptr);
    if (!Wants(args.out, classifier_ ? 1 : 0)) return;
    const MutView& out = args.out[classifier_ ? 1 : 0];
    if (out.dtype == DType::kF32) {
      for (int64_t t = 0; t < targets_; ++t) out.Data<float>()[row * targets_ + t] = static_cast<float>(scores[t]);
      return;
    }
    for (int64_t t = 0; t < targets_; ++t) StoreDouble(out.dtype, out.data, row * targets_ + t, static_cast<double>(scores[t]));
  }

  int64_t targets_, features_;
  Aggregate aggregate_;
  TreeFinish<T> finish_;
  bool classifier_;
};

template <typename T>
class Reference final : public TreeKernel<T> {
 public:
  Reference(TreeSpec spec, const Attrs& attrs, Op op) : TreeKernel<T>(spec, attrs, op), spec_(std::move(spec)) {}

  Status Run(const RunArgs& args) const override {
    const Matrix x = AsMatrix(args.in[0].shape);
    TENON_RETURN_IF_ERROR(this->CheckWidth(x));
    std::vector<double> row(static_cast<size_t>(x.columns));
    std::vector<T> scores(static_cast<size_t>(this->targets_));
    std::vector<uint8_t> has(scores.size());
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t c = 0; c < x.columns; ++c) {
        const double v = LoadDouble(args.in[0].dtype, args.in[0].data, r * x.columns + c);
        row[static_cast<size_t>(c)] = static_cast<double>(static_cast<T>(v));
      }
      std::fill(scores.begin(), scores.end(), T(0));
      std::fill(has.begin(), has.end(), uint8_t{0});
      for (const TreeSpec::Ref root : spec_.roots) {
        const size_t leaf = spec_.Leaf(root, row.data());
        for (size_t w = spec_.leaf_begin[leaf]; w < spec_.leaf_begin[leaf + 1]; ++w) {
          const auto& weight = spec_.weights[w];
          const auto t = static_cast<size_t>(weight.target);
          Add(spec_.aggregate, static_cast<T>(weight.value), &scores[t], &has[t]);
        }
      }
      this->Finish(args, r, scores.data(), has.data());
    }
    return {};
  }

 private:
  TreeSpec spec_;
};

template <typename T>
class ForestKernel final : public TreeKernel<T> {
 public:
  ForestKernel(const TreeSpec& spec, const Attrs& attrs, Op op, Forest<T> forest, int threads)
      : TreeKernel<T>(spec, attrs, op), forest_(std::move(forest)), threads_(std::max(1, threads)) {
    const auto row_bytes = static_cast<int64_t>(forest_.features.size() * sizeof(T));
    // A block's features stay in the L1 cache while every tree walks over it.
    block_ = std::clamp<int64_t>(kBlockBytes / row_bytes / kLanes * kLanes, kLanes, kMostRows);
    if (this->targets_ > 256) block_ = kLanes;
  }

  size_t PackedBytes() const override { return forest_.bytes(); }

  Result<Configured> Configure(std::span<const View>, std::span<const View>) const override {
    Configured c;
    c.scratch_bytes = ThreadBytes() * static_cast<size_t>(threads_);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    const Matrix x = AsMatrix(args.in[0].shape);
    TENON_RETURN_IF_ERROR(this->CheckWidth(x));
    // Scratch was sized for the threads that make() was told of.
    const auto worth = static_cast<int64_t>(kGrainVisits / forest_.visits) + 1;
    const int64_t grain = args.team.size() > threads_ ? x.rows : (worth + kLanes - 1) / kLanes * kLanes;
    args.team.ParallelFor(x.rows, grain, [&](int64_t begin, int64_t end, int thread) {
      Scratch s = ScratchOf(args.scratch, thread);
      for (int64_t r = begin; r < end; r += block_) RunBlock(args, x, r, std::min(end, r + block_), s);
    });
    return {};
  }

 private:
  static constexpr int64_t kBlockBytes = 16 << 10, kMostRows = 128;
  static constexpr double kGrainVisits = 10000;

  struct Scratch {
    T* x;          // [block / kLanes][features][kLanes]
    T* scores;     // [block][targets]
    uint8_t* has;  // [block][targets]
    uint32_t* leaves;   // [trees]
  };

  template <typename In>
  static T ToThreshold(In v) {
    if constexpr (std::is_same_v<In, Half> || std::is_same_v<In, BFloat16>) {
      return static_cast<T>(static_cast<float>(v));
    } else {
      return static_cast<T>(v);
    }
  }
  static size_t Align(size_t n) { return (n + 63) / 64 * 64; }
  size_t ThreadBytes() const {
    const auto rows = static_cast<size_t>(block_), targets = static_cast<size_t>(this->targets_);
    return Align(rows * forest_.features.size() * sizeof(T)) + Align(rows * targets * sizeof(T)) + Align(rows * targets) +
           Align(forest_.trees.size() * sizeof(uint32_t));
  }
  Scratch ScratchOf(std::byte* base, int thread) const {
    std::byte* at = base + ThreadBytes() * static_cast<size_t>(thread);
    const auto rows = static_cast<size_t>(block_);
    Scratch s;
    s.x = reinterpret_cast<T*>(at);
    at += Align(rows * forest_.features.size() * sizeof(T));
    s.scores = reinterpret_cast<T*>(at);
    at += Align(rows * static_cast<size_t>(this->targets_) * sizeof(T));
    s.has = reinterpret_cast<uint8_t*>(at);
    at += Align(rows * static_cast<size_t>(this->targets_));
    s.leaves = reinterpret_cast<uint32_t*>(at);
    return s;
  }

  // Used features of rows [begin, end) to `to`, `lanes` rows side by side, the last row again where there are fewer. True when
  // there is a NaN among them.
  template <typename In>
  bool Gather(const In* from, int64_t columns, int64_t begin, int64_t end, int64_t lanes, T* to) const {
    const auto n = static_cast<int64_t>(forest_.features.size());
    bool nans = false;
    for (int64_t r = begin; r < end; r += kLanes, to += n * kLanes) {
      for (int64_t k = 0; k < lanes; ++k) {
        const In* row = from + std::min(r + k, end - 1) * columns;
        for (int64_t f = 0; f < n; ++f) {
          const T v = ToThreshold(row[forest_.features[static_cast<size_t>(f)]]);
          nans |= v != v;
          to[f * kLanes + k] = v;
        }
      }
    }
    return nans;
  }
  bool Gather(const View& x, int64_t columns, int64_t begin, int64_t end, int64_t lanes, T* to) const {
    if (columns == 0) {   // trees of one leaf
      std::fill_n(to, ((end - begin) + kLanes - 1) / kLanes * kLanes, T(0));
      return false;
    }
    bool nans = false;
    DispatchDType<TENON_NUMERIC_TYPES, bool>(x.dtype, [&](auto tag) {
      using In = typename decltype(tag)::type;
      nans = Gather(x.Data<In>(), columns, begin, end, lanes, to);
    });
    return nans;
  }

  void AddLeaf(uint32_t node, T* scores, uint8_t* has) const {
    if (forest_.single) {
      Add(this->aggregate_, forest_.value[node], scores + forest_.target, has + forest_.target);
      return;
    }
    const uint32_t leaf = forest_.leaf[node];
    for (uint32_t w = forest_.leaf_begin[leaf]; w < forest_.leaf_begin[leaf + 1]; ++w) {
      const auto& weight = forest_.weights[w];
      Add(this->aggregate_, weight.value, scores + weight.target, has + weight.target);
    }
  }

  // Trees are added in their order whatever the block or the number of threads: the sums never change.
  void RunBlock(const RunArgs& args, const Matrix& x, int64_t begin, int64_t end, const Scratch& s) const {
    // A last group of few rows goes one by one.
    const int64_t tail = (end - begin) % kLanes < kLanes / 2 ? (end - begin) % kLanes : 0;
    const int64_t rows = end - begin - tail, width = this->targets_;
    if (rows > 0) {
      const bool nans = Gather(args.in[0], x.columns, begin, begin + rows, kLanes, s.x);
      AddTrees(rows, nans, s);
      for (int64_t r = 0; r < rows; ++r) this->Finish(args, begin + r, s.scores + r * width, s.has + r * width);
    }
    for (int64_t r = begin + rows; r < end; ++r) RunRow(args, x, r, s);
  }

  // Every leaf has one weight, always of the same target, and weights are added up.
  bool Sums() const { return forest_.single && this->aggregate_ != Aggregate::kMin && this->aggregate_ != Aggregate::kMax; }

  // Sums of all trees for `rows` rows, kLanes of them at a time.
  void AddTrees(int64_t rows, bool nans, const Scratch& s) const {
    const int64_t width = this->targets_, group = static_cast<int64_t>(forest_.features.size()) * kLanes;
    std::fill_n(s.scores, rows * width, T(0));
    std::fill_n(s.has, rows * width, uint8_t{0});
    const bool sums = Sums();
    for (size_t t = 0; t < forest_.trees.size(); ++t) {
      for (int64_t r = 0; r < rows; r += kLanes) {
        uint32_t at[kLanes];
        WalkRows(forest_, s.x + r / kLanes * group, nans, t, at);
        const int64_t lanes = std::min(kLanes, rows - r);
        if (sums) {
          T* scores = s.scores + r * width + forest_.target;
          for (int64_t k = 0; k < lanes; ++k) scores[k * width] += forest_.value[at[k]];
        } else {
          for (int64_t k = 0; k < lanes; ++k) AddLeaf(at[k], s.scores + (r + k) * width, s.has + (r + k) * width);
        }
      }
    }
    if (!sums || forest_.trees.empty()) return;
    for (int64_t r = 0; r < rows; ++r) s.has[r * width + forest_.target] = 1;
  }

  // One row: many trees at a time, shared out over the threads when there are many and this is not a part of more rows.
  void RunRow(const RunArgs& args, const Matrix& x, int64_t row, const Scratch& s) const {
    const auto trees = static_cast<int64_t>(forest_.trees.size());
    const double per_tree = forest_.visits / std::max(1.0, static_cast<double>(trees));
    const int64_t grain = (static_cast<int64_t>(kGrainVisits / per_tree) + kLanes) / kLanes * kLanes;
    const bool nans = Gather(args.in[0], x.columns, row, row + 1, 1, s.x);
    args.team.ParallelFor(trees, grain, [&](int64_t begin, int64_t end, int) {
      WalkTrees(forest_, s.x, nans, static_cast<size_t>(begin), static_cast<size_t>(end), s.leaves + begin);
    });
    std::fill_n(s.scores, this->targets_, T(0));
    std::fill_n(s.has, this->targets_, uint8_t{0});
    if (Sums() && trees > 0) {
      T sum = 0;
      for (int64_t t = 0; t < trees; ++t) sum += forest_.value[s.leaves[t]];
      s.scores[forest_.target] = sum;
      s.has[forest_.target] = 1;
    } else {
      for (int64_t t = 0; t < trees; ++t) AddLeaf(s.leaves[t], s.scores, s.has);
    }
    this->Finish(args, row, s.scores, s.has);
  }

  Forest<T> forest_;
  int threads_;
  int64_t block_ = kLanes;
};

template <typename T>
Result<std::unique_ptr<Kernel>> MakeFast(const Problem& p, Op op, const TreeSpec& spec) {
  TENON_ASSIGN_OR_RETURN(Forest<T> forest, BuildForest<T>(spec));
  return std::unique_ptr<Kernel>(std::make_unique<ForestKernel<T>>(spec, p.attrs, op, std::move(forest), p.threads));
}

Result<std::unique_ptr<Kernel>> MakeTrees(const Problem& p, bool fast) {
  const Op op = OpOf(p.op);
  const DType t = ThresholdType(p.in[0].dtype);
  TENON_ASSIGN_OR_RETURN(TreeSpec spec, Load(op, p.attrs, t));
  if (fast) return t == DType::kF64 ? MakeFast<double>(p, op, spec) : MakeFast<float>(p, op, spec);
  if (t == DType::kF64) return std::unique_ptr<Kernel>(std::make_unique<Reference<double>>(std::move(spec), p.attrs, op));
  return std::unique_ptr<Kernel>(std::make_unique<Reference<float>>(std::move(spec), p.attrs, op));
}

Status CheckTargetCount(int64_t targets) {
  if (targets >= 1 && targets <= kMaxTargets) return {};
  return BadInput("n_targets {}; allowed: 1 to {}", targets, kMaxTargets);
}

}  // namespace

Status InferTreeEnsemble(const ShapeArgs& args) {
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && !IsPlainFloat(t)) return BadInput("X is {}; a float type needed", DTypeName(t));
  const int64_t targets = args.attrs.Int("n_targets", 0);
  TENON_RETURN_IF_ERROR(CheckTargetCount(targets));
  TENON_ASSIGN_OR_RETURN(Dim rows, RowsOf(args.in[0]));
  SetOutput(args, 0, t, SymShape({std::move(rows), Dim(targets)}));
  return {};
}

Status InferTreeEnsembleRegressor(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckNumeric(args.in[0]));
  const int64_t targets = args.attrs.Int("n_targets", 0);
  TENON_RETURN_IF_ERROR(CheckTargetCount(targets));
  TENON_ASSIGN_OR_RETURN(Dim rows, RowsOf(args.in[0]));
  SetOutput(args, 0, DType::kF32, SymShape({std::move(rows), Dim(targets)}));
  return {};
}

Status InferTreeEnsembleClassifier(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckNumeric(args.in[0]));
  TENON_ASSIGN_OR_RETURN(const int64_t classes, CountLabels(args.attrs, "classlabels_int64s"));
  TENON_ASSIGN_OR_RETURN(Dim rows, RowsOf(args.in[0]));
  SetOutput(args, 0, LabelType(args.attrs), SymShape({rows}));
  SetOutput(args, 1, DType::kF32, SymShape({std::move(rows), Dim(classes)}));
  return {};
}

Result<std::unique_ptr<Kernel>> MakeForest(const Problem& p) {
  return MakeTrees(p, true);
}
Result<std::unique_ptr<Kernel>> MakeTreeReference(const Problem& p) {
  return MakeTrees(p, false);
}

}  // namespace tenon::kernels::ml
