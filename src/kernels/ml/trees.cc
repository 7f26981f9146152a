// TreeEnsemble (ai.onnx.ml 5): decision trees over the features of a row, whose leaves add up to scores.
#include <cmath>
#include <limits>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/ml/ml.h"

namespace tenon::kernels::ml {
namespace {

enum class Mode : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };
enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };

struct Node {
  Mode mode;
  bool missing_is_true, true_leaf, false_leaf;
  int64_t feature, if_true, if_false;
  double split;
  size_t set_begin = 0, set_end = 0;   // kMember: range of `members`
};

struct Ensemble {
  std::vector<Node> nodes;
  std::vector<int64_t> roots, leaf_target;
  std::vector<double> leaf_weight, members;
  int64_t targets = 0, features = 0;   // features: how many a row must have
  Aggregate aggregate = Aggregate::kSum;
  PostTransform post = PostTransform::kNone;

  // A node is visited at most once on a way down: Load has checked that ways end.
  int64_t Leaf(int64_t root, const double* row) const {
    int64_t at = root;
    while (true) {
      const Node& n = nodes[static_cast<size_t>(at)];
      const bool yes = Test(n, row[n.feature]);
      at = yes ? n.if_true : n.if_false;
      if (yes ? n.true_leaf : n.false_leaf) return at;
    }
  }

  bool Test(const Node& n, double v) const {
    if (std::isnan(v)) return n.missing_is_true || (n.mode == Mode::kNeq);
    switch (n.mode) {
      case Mode::kLeq: return v <= n.split;
      case Mode::kLt: return v < n.split;
      case Mode::kGte: return v >= n.split;
      case Mode::kGt: return v > n.split;
      case Mode::kEq: return v == n.split;
      case Mode::kNeq: return v != n.split;
      case Mode::kMember:
        for (size_t i = n.set_begin; i < n.set_end; ++i) {
          if (members[i] == v) return true;
        }
        return false;
    }
    return false;
  }
};

Result<std::vector<double>> Numbers(const Attrs& attrs, const char* name) {
  const Tensor* t = attrs.GetTensor(name);
  if (t == nullptr) return std::vector<double>();
  if (!IsPlainNumeric(t->dtype()))
    return BadInput("attribute {} is {}; a plain numeric type needed", name, DTypeName(t->dtype()));
  std::vector<double> out;
  for (int64_t i = 0; i < t->shape().num_elements(); ++i) out.push_back(LoadDouble(t->dtype(), t->data(), i));
  return out;
}

// Every way down from a root must reach a leaf: nodes on the current way are marked 1, finished ones 2.
Status CheckAcyclic(const Ensemble& e) {
  std::vector<uint8_t> mark(e.nodes.size(), 0);
  std::vector<std::pair<size_t, int>> stack;
  for (int64_t root : e.roots) {
    if (mark[static_cast<size_t>(root)] != 0) continue;
    stack.emplace_back(static_cast<size_t>(root), 0);
    mark[static_cast<size_t>(root)] = 1;
    while (!stack.empty()) {
      auto& [at, branch] = stack.back();
      const Node& n = e.nodes[at];
      if (branch == 2) {
        mark[at] = 2;
        stack.pop_back();
        continue;
      }
      const bool leaf = branch == 0 ? n.true_leaf : n.false_leaf;
      const auto next = static_cast<size_t>(branch == 0 ? n.if_true : n.if_false);
      ++branch;
      if (leaf || mark[next] == 2) continue;
      if (mark[next] == 1) return BadInput("tree node {} leads back to itself", next);
      mark[next] = 1;
      stack.emplace_back(next, 0);
    }
  }
  return {};
}

Result<Ensemble> Load(const Attrs& attrs) {
  Ensemble e;
  const auto features = attrs.Ints("nodes_featureids"), yes = attrs.Ints("nodes_truenodeids"),
             no = attrs.Ints("nodes_falsenodeids");
  const auto yes_leaf = attrs.Ints("nodes_trueleafs"), no_leaf = attrs.Ints("nodes_falseleafs");
  const auto missing = attrs.Ints("nodes_missing_value_tracks_true");
  TENON_ASSIGN_OR_RETURN(const auto splits, Numbers(attrs, "nodes_splits"));
  TENON_ASSIGN_OR_RETURN(const auto modes, Numbers(attrs, "nodes_modes"));
  TENON_ASSIGN_OR_RETURN(e.leaf_weight, Numbers(attrs, "leaf_weights"));
  TENON_ASSIGN_OR_RETURN(e.members, Numbers(attrs, "membership_values"));
  e.leaf_target = attrs.Ints("leaf_targetids");
  e.roots = attrs.Ints("tree_roots");
  e.targets = attrs.Int("n_targets", 0);
  const size_t n = features.size();
  if (yes.size() != n || no.size() != n || yes_leaf.size() != n || no_leaf.size() != n || splits.size() != n ||
      modes.size() != n || (!missing.empty() && missing.size() != n) || e.leaf_weight.size() != e.leaf_target.size()) {
    return BadInput("attributes nodes_* or leaf_* differ in length");
  }
  if (e.targets < 1 || e.targets > int64_t{1} << 24) return BadInput("n_targets {}; at least 1 needed", e.targets);
  const int64_t aggregate = attrs.Int("aggregate_function", 1), post = attrs.Int("post_transform", 0);
  if (aggregate < 0 || aggregate > 3) return BadInput("aggregate_function {}; allowed: 0 to 3", aggregate);
  if (post < 0 || post > 4) return BadInput("post_transform {}; allowed: 0 to 4", post);
  e.aggregate = static_cast<Aggregate>(aggregate);
  e.post = static_cast<PostTransform>(post);
  for (int64_t t : e.leaf_target) {
    if (t < 0 || t >= e.targets) return BadInput("leaf target {}; allowed: 0 to {}", t, e.targets - 1);
  }
  size_t member = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= 6)) return BadInput("node mode {}; allowed: 0 to 6", modes[i]);
    if (features[i] < 0 || features[i] > int64_t{1} << 30) return BadInput("feature {} of node {}", features[i], i);
    Node node{static_cast<Mode>(static_cast<int>(modes[i])),
              !missing.empty() && missing[i] != 0,
              yes_leaf[i] != 0,
              no_leaf[i] != 0,
              features[i],
              yes[i],
              no[i],
              splits[i]};
    for (auto [leaf, to] : {std::pair{node.true_leaf, yes[i]}, std::pair{node.false_leaf, no[i]}}) {
      const size_t limit = leaf ? e.leaf_weight.size() : n;
      if (to < 0 || static_cast<size_t>(to) >= limit) return BadInput("node {} branches to {} of {}", i, to, limit);
    }
    if (node.mode == Mode::kMember) {
      node.set_begin = member;
      while (member < e.members.size() && !std::isnan(e.members[member])) ++member;
      if (member == e.members.size()) return BadInput("membership_values ends before the set of node {}", i);
      node.set_end = member++;
    }
    e.features = std::max(e.features, features[i] + 1);
    e.nodes.push_back(node);
  }
  for (int64_t r : e.roots) {
    if (r < 0 || static_cast<size_t>(r) >= n) return BadInput("tree root {}; allowed: below {}", r, n);
  }
  TENON_RETURN_IF_ERROR(CheckAcyclic(e));
  return e;
}

class TreeEnsemble final : public Kernel {
 public:
  explicit TreeEnsemble(Ensemble e) : e_(std::move(e)) {}
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int64_t width = x.shape[1];
    if (width < e_.features) return BadInput("rows of {} features; the trees use {}", width, e_.features);
    args.team.ParallelFor(x.shape[0], 64, [&](int64_t begin, int64_t end, int) {
      std::vector<double> row(static_cast<size_t>(width)), scores(static_cast<size_t>(e_.targets));
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t c = 0; c < width; ++c) row[static_cast<size_t>(c)] = LoadDouble(x.dtype, x.data, r * width + c);
        Score(row.data(), &scores, x.dtype);
        for (int64_t t = 0; t < e_.targets; ++t)
          StoreDouble(x.dtype, args.out[0].data, r * e_.targets + t, scores[static_cast<size_t>(t)]);
      }
    });
    return {};
  }

 private:
  void Score(const double* row, std::vector<double>* scores, DType t) const {
    const double top = t == DType::kF64   ? std::numeric_limits<double>::max()
                       : t == DType::kF32 ? std::numeric_limits<float>::max()
                                          : 65504;
    const double start = e_.aggregate == Aggregate::kMin ? top : e_.aggregate == Aggregate::kMax ? -top : 0;
    std::fill(scores->begin(), scores->end(), start);
    for (int64_t root : e_.roots) {
      const auto leaf = static_cast<size_t>(e_.Leaf(root, row));
      double& s = (*scores)[static_cast<size_t>(e_.leaf_target[leaf])];
      const double w = e_.leaf_weight[leaf];
      switch (e_.aggregate) {
        case Aggregate::kMin: s = std::min(s, w); break;
        case Aggregate::kMax: s = std::max(s, w); break;
        case Aggregate::kSum: s += w; break;
        case Aggregate::kAverage: s += w / static_cast<double>(e_.roots.size()); break;
      }
    }
    Apply(e_.post, scores->data(), e_.targets);
  }

  Ensemble e_;
};

}  // namespace

Status InferTreeEnsemble(const ShapeArgs& args) {
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && !IsPlainFloat(t)) return BadInput("X is {}; a float type needed", DTypeName(t));
  const SymShape& x = args.in[0].shape;
  if (x.has_rank() && x.rank() != 2) return BadInput("X has shape {}; [rows, features] needed", x.ToString());
  const int64_t targets = args.attrs.Int("n_targets", 0);
  if (targets < 1 || targets > int64_t{1} << 24) return BadInput("n_targets {}; at least 1 needed", targets);
  SetOutput(args, 0, t, SymShape({x.has_rank() ? x[0] : Dim::Unknown(), Dim(targets)}));
  return {};
}

Result<std::unique_ptr<Kernel>> MakeTreeEnsemble(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(Ensemble e, Load(p.attrs));
  return std::unique_ptr<Kernel>(new TreeEnsemble(std::move(e)));
}

}  // namespace tenon::kernels::ml
