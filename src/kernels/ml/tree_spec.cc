// Attributes of TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier to a checked TreeSpec.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "kernels/element.h"
#include "kernels/ml/trees.h"

namespace tenon::kernels::ml {
namespace {

constexpr int64_t kMaxFeature = int64_t{1} << 27;

double Round(double v, DType to) {
  return to == DType::kF32 ? static_cast<double>(static_cast<float>(v)) : v;
}

Result<Mode> ModeFromName(const std::string& name) {
  static const std::pair<const char*, Mode> kNames[] = {{"BRANCH_LEQ", Mode::kLeq}, {"BRANCH_LT", Mode::kLt},
                                                        {"BRANCH_GTE", Mode::kGte}, {"BRANCH_GT", Mode::kGt},
                                                        {"BRANCH_EQ", Mode::kEq},   {"BRANCH_NEQ", Mode::kNeq}};
  for (const auto& [text, mode] : kNames) {
    if (name == text) return mode;
  }
  return BadInput("node mode '{}'; allowed: BRANCH_LEQ, BRANCH_LT, BRANCH_GTE, BRANCH_GT, BRANCH_EQ, BRANCH_NEQ, LEAF", name);
}

Status CheckTargets(int64_t targets) {
  if (targets >= 1 && targets <= kMaxTargets) return {};
  return BadInput("{} targets or classes; allowed: 1 to {}", targets, kMaxTargets);
}

Status SetFeature(int64_t feature, size_t node, TreeSpec* spec) {
  if (feature < 0 || feature >= kMaxFeature) {
    return BadInput("feature {} of tree node {}; allowed: 0 to {}", feature, node, kMaxFeature - 1);
  }
  spec->features = std::max(spec->features, feature + 1);
  return {};
}

// The parallel attributes of the operators of ai.onnx.ml 1 and 3, which name nodes by tree and number.
class TableLoader {
 public:
  TableLoader(const Attrs& attrs, std::string prefix, DType round_to)
      : attrs_(attrs), prefix_(std::move(prefix)), round_to_(round_to) {}

  Result<TreeSpec> Load(int64_t targets) {
    spec_.targets = targets;
    TENON_RETURN_IF_ERROR(CheckTargets(targets));
    TENON_ASSIGN_OR_RETURN(spec_.post, PostTransformFromName(attrs_.String("post_transform", "NONE")));
    TENON_RETURN_IF_ERROR(ReadNodes());
    TENON_RETURN_IF_ERROR(ReadWeights());
    TENON_RETURN_IF_ERROR(Connect());
    TENON_RETURN_IF_ERROR(CheckAcyclic(spec_));
    TENON_ASSIGN_OR_RETURN(spec_.base_values, FloatsOrTensor(attrs_, "base_values", round_to_));
    return std::move(spec_);
  }

 private:
  struct Id {
    int64_t tree, node;
    bool operator==(const Id& o) const { return tree == o.tree && node == o.node; }
  };
  struct Hash {
    size_t operator()(const Id& id) const { return std::hash<int64_t>()(id.tree) * 1000003u ^ std::hash<int64_t>()(id.node); }
  };

  Status ReadNodes() {
    trees_ = attrs_.Ints("nodes_treeids");
    ids_ = attrs_.Ints("nodes_nodeids");
    features_ = attrs_.Ints("nodes_featureids");
    yes_ = attrs_.Ints("nodes_truenodeids");
    no_ = attrs_.Ints("nodes_falsenodeids");
    missing_ = attrs_.Ints("nodes_missing_value_tracks_true");
    modes_ = attrs_.Strings("nodes_modes");
    TENON_ASSIGN_OR_RETURN(values_, FloatsOrTensor(attrs_, "nodes_values", round_to_));
    const size_t n = trees_.size();
    if (n == 0) return BadInput("no tree nodes: attribute nodes_treeids is empty");
    if (ids_.size() != n || features_.size() != n || yes_.size() != n || no_.size() != n || modes_.size() != n ||
        values_.size() != n || (!missing_.empty() && missing_.size() != n)) {
      return BadInput(
          "attributes nodes_* differ in length: {} tree, {} node and {} feature ids, {} and {} branches, {} modes, "
          "{} values, {} missing flags",
          n, ids_.size(), features_.size(), yes_.size(), no_.size(), modes_.size(), values_.size(), missing_.size());
    }
    ref_.resize(n);
    index_.reserve(n);
    int64_t leaves = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!index_.emplace(Id{trees_[i], ids_[i]}, i).second) {
        return BadInput("node {} of tree {} is given twice", ids_[i], trees_[i]);
      }
      if (modes_[i] == "LEAF") {
        ref_[i] = ~leaves++;
        continue;
      }
      TreeSpec::Node node;
      TENON_ASSIGN_OR_RETURN(node.mode, ModeFromName(modes_[i]));
      TENON_RETURN_IF_ERROR(SetFeature(features_[i], i, &spec_));
      node.feature = features_[i];
      node.split = values_[i];
      node.missing_is_true = !missing_.empty() && missing_[i] == 1;
      ref_[i] = static_cast<TreeSpec::Ref>(spec_.nodes.size());
      spec_.nodes.push_back(node);
    }
    leaves_ = static_cast<size_t>(leaves);
    return {};
  }

  Status ReadWeights() {
    const auto trees = attrs_.Ints(prefix_ + "_treeids"), nodes = attrs_.Ints(prefix_ + "_nodeids"),
               targets = attrs_.Ints(prefix_ + "_ids");
    TENON_ASSIGN_OR_RETURN(const auto values, FloatsOrTensor(attrs_, prefix_ + "_weights", round_to_));
    const size_t n = targets.size();
    if (trees.size() != n || nodes.size() != n || values.size() != n) {
      return BadInput("attributes {}_* differ in length: {} tree ids, {} node ids, {} ids, {} weights", prefix_, trees.size(),
                      nodes.size(), n, values.size());
    }
    constexpr size_t kDropped = ~size_t{0};
    std::vector<size_t> leaf(n, kDropped), next(leaves_ + 1, 0);
    for (size_t i = 0; i < n; ++i) {
      if (targets[i] < 0 || targets[i] >= spec_.targets) {
        return BadInput("{}_ids holds {}; allowed: 0 to {}", prefix_, targets[i], spec_.targets - 1);
      }
      const auto it = index_.find(Id{trees[i], nodes[i]});
      if (it == index_.end()) return BadInput("a weight belongs to node {} of tree {}, which is not given", nodes[i], trees[i]);
      // Weights of inner nodes, which old converters wrote, count for nothing, as in ONNX Runtime.
      if (ref_[it->second] >= 0) continue;
      leaf[i] = static_cast<size_t>(~ref_[it->second]);
      ++next[leaf[i] + 1];
    }
    for (size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
    spec_.leaf_begin.assign(next.begin(), next.end());
    spec_.weights.resize(next.back());
    for (size_t i = 0; i < n; ++i) {
      if (leaf[i] != kDropped) spec_.weights[next[leaf[i]]++] = {targets[i], values[i]};
    }
    return {};
  }

  Status Connect() {
    for (size_t i = 0; i < trees_.size(); ++i) {
      // The first node of a run of one tree is its root.
      if (i == 0 || trees_[i] != trees_[i - 1]) spec_.roots.push_back(ref_[i]);
      if (ref_[i] < 0) continue;
      auto& node = spec_.nodes[static_cast<size_t>(ref_[i])];
      for (const auto& [to, branch] : {std::pair{yes_[i], &node.if_true}, std::pair{no_[i], &node.if_false}}) {
        const auto it = index_.find(Id{trees_[i], to});
        if (it == index_.end())
          return BadInput("node {} of tree {} branches to node {}, which is not given", ids_[i], trees_[i], to);
        *branch = ref_[it->second];
      }
    }
    return {};
  }

  const Attrs& attrs_;
  std::string prefix_;
  DType round_to_;
  TreeSpec spec_;
  std::vector<int64_t> trees_, ids_, features_, yes_, no_, missing_;
  std::vector<std::string> modes_;
  std::vector<double> values_;
  std::vector<TreeSpec::Ref> ref_;
  std::unordered_map<Id, size_t, Hash> index_;
  size_t leaves_ = 0;
};

// Sets of kMember nodes follow each other in membership_values, each ended by a NaN. Membership is ONNX's: ONNX Runtime 1.32
// takes wrong branches where sets with fractions or negative numbers follow each other.
Status ReadSets(std::vector<double> members, TreeSpec* spec) {
  size_t at = 0;
  for (size_t i = 0; i < spec->nodes.size(); ++i) {
    auto& node = spec->nodes[i];
    if (node.mode != Mode::kMember) continue;
    node.set_begin = at;
    while (at < members.size() && !std::isnan(members[at])) ++at;
    if (at == members.size()) return BadInput("membership_values ends before the set of node {}", i);
    std::sort(members.begin() + static_cast<std::ptrdiff_t>(node.set_begin), members.begin() + static_cast<std::ptrdiff_t>(at));
    node.set_end = at++;
  }
  spec->members = std::move(members);
  return {};
}

}  // namespace

bool TreeSpec::Test(const Node& n, double v) const {
  if (std::isnan(v)) return n.missing_is_true || n.mode == Mode::kNeq;
  switch (n.mode) {
    case Mode::kLeq: return v <= n.split;
    case Mode::kLt: return v < n.split;
    case Mode::kGte: return v >= n.split;
    case Mode::kGt: return v > n.split;
    case Mode::kEq: return v == n.split;
    case Mode::kNeq: return v != n.split;
    case Mode::kMember:
      return std::binary_search(members.begin() + static_cast<std::ptrdiff_t>(n.set_begin),
                                members.begin() + static_cast<std::ptrdiff_t>(n.set_end), v);
  }
  return false;
}

size_t TreeSpec::Leaf(Ref at, const double* row) const {
  while (at >= 0) {
    const Node& n = nodes[static_cast<size_t>(at)];
    at = Test(n, row[n.feature]) ? n.if_true : n.if_false;
  }
  return static_cast<size_t>(~at);
}

// Nodes on the current way down are marked 1, finished ones 2.
Status CheckAcyclic(const TreeSpec& spec) {
  std::vector<uint8_t> mark(spec.nodes.size(), 0);
  std::vector<std::pair<size_t, int>> stack;
  for (const TreeSpec::Ref root : spec.roots) {
    if (root < 0 || mark[static_cast<size_t>(root)] != 0) continue;
    stack.emplace_back(static_cast<size_t>(root), 0);
    mark[static_cast<size_t>(root)] = 1;
    while (!stack.empty()) {
      auto& [at, branch] = stack.back();
      if (branch == 2) {
        mark[at] = 2;
        stack.pop_back();
        continue;
      }
      const TreeSpec::Ref next = branch++ == 0 ? spec.nodes[at].if_true : spec.nodes[at].if_false;
      if (next < 0 || mark[static_cast<size_t>(next)] == 2) continue;
      if (mark[static_cast<size_t>(next)] == 1) return BadInput("tree node {} leads back to itself", next);
      mark[static_cast<size_t>(next)] = 1;
      stack.emplace_back(static_cast<size_t>(next), 0);
    }
  }
  return {};
}

Result<std::vector<double>> TensorNumbers(const Attrs& attrs, const std::string& name, DType round_to) {
  std::vector<double> out;
  const Tensor* t = attrs.GetTensor(name);
  if (t == nullptr) return out;
  if (!IsPlainNumeric(t->dtype()))
    return BadInput("attribute {} is {}; a plain numeric type needed", name, DTypeName(t->dtype()));
  out.resize(static_cast<size_t>(t->shape().num_elements()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = Round(LoadDouble(t->dtype(), t->data(), static_cast<int64_t>(i)), round_to);
  return out;
}

Result<std::vector<double>> FloatsOrTensor(const Attrs& attrs, const std::string& name, DType round_to) {
  const auto floats = attrs.Floats(name);
  TENON_ASSIGN_OR_RETURN(auto numbers, TensorNumbers(attrs, name + "_as_tensor", round_to));
  if (!floats.empty() && !numbers.empty()) return BadInput("attributes {} and {}_as_tensor are both given", name, name);
  if (!floats.empty()) numbers.assign(floats.begin(), floats.end());
  return numbers;
}

Result<TreeSpec> LoadRegressor(const Attrs& attrs, DType round_to) {
  TENON_ASSIGN_OR_RETURN(TreeSpec spec, TableLoader(attrs, "target", round_to).Load(attrs.Int("n_targets", 0)));
  const std::string name = attrs.String("aggregate_function", "SUM");
  if (name != "SUM" && name != "AVERAGE" && name != "MIN" && name != "MAX") {
    return BadInput("aggregate_function '{}'; allowed: SUM, AVERAGE, MIN, MAX", name);
  }
  spec.aggregate = name == "SUM"       ? Aggregate::kSum
                   : name == "AVERAGE" ? Aggregate::kAverage
                   : name == "MIN"     ? Aggregate::kMin
                                       : Aggregate::kMax;
  if (!spec.base_values.empty() && static_cast<int64_t>(spec.base_values.size()) != spec.targets) {
    return BadInput("{} base_values for {} targets; none or one for each needed", spec.base_values.size(), spec.targets);
  }
  return spec;
}

Result<TreeSpec> LoadClassifier(const Attrs& attrs, DType round_to) {
  TENON_ASSIGN_OR_RETURN(const int64_t classes, CountLabels(attrs, "classlabels_int64s"));
  TENON_ASSIGN_OR_RETURN(TreeSpec spec, TableLoader(attrs, "class", round_to).Load(classes));
  const auto bases = static_cast<int64_t>(spec.base_values.size());
  if (bases != 0 && bases != classes && !(classes == 2 && bases == 1)) {
    return BadInput("{} base_values for {} classes; none or one for each needed", bases, classes);
  }
  return spec;
}

Result<TreeSpec> LoadTreeEnsemble(const Attrs& attrs, DType round_to) {
  TreeSpec spec;
  const auto features = attrs.Ints("nodes_featureids"), yes = attrs.Ints("nodes_truenodeids"),
             no = attrs.Ints("nodes_falsenodeids"), yes_leaf = attrs.Ints("nodes_trueleafs"),
             no_leaf = attrs.Ints("nodes_falseleafs"), missing = attrs.Ints("nodes_missing_value_tracks_true"),
             targets = attrs.Ints("leaf_targetids");
  TENON_ASSIGN_OR_RETURN(const auto splits, TensorNumbers(attrs, "nodes_splits", round_to));
  TENON_ASSIGN_OR_RETURN(const auto modes, TensorNumbers(attrs, "nodes_modes", DType::kF64));
  TENON_ASSIGN_OR_RETURN(const auto weights, TensorNumbers(attrs, "leaf_weights", round_to));
  TENON_ASSIGN_OR_RETURN(auto members, TensorNumbers(attrs, "membership_values", round_to));
  const size_t n = features.size();
  if (yes.size() != n || no.size() != n || yes_leaf.size() != n || no_leaf.size() != n || splits.size() != n ||
      modes.size() != n || (!missing.empty() && missing.size() != n) || weights.size() != targets.size()) {
    return BadInput("attributes nodes_* or leaf_* differ in length");
  }
  spec.targets = attrs.Int("n_targets", 0);
  TENON_RETURN_IF_ERROR(CheckTargets(spec.targets));
  const int64_t aggregate = attrs.Int("aggregate_function", 1), post = attrs.Int("post_transform", 0);
  if (aggregate < 0 || aggregate > 3) return BadInput("aggregate_function {}; allowed: 0 to 3", aggregate);
  if (post < 0 || post > 4) return BadInput("post_transform {}; allowed: 0 to 4", post);
  spec.aggregate = static_cast<Aggregate>(aggregate);
  // 1 is LOGISTIC and 2 is SOFTMAX, as ONNX Runtime counts; the text of the specification has them the other way round.
  constexpr PostTransform kPosts[] = {PostTransform::kNone, PostTransform::kLogistic, PostTransform::kSoftmax,
                                      PostTransform::kSoftmaxZero, PostTransform::kProbit};
  spec.post = kPosts[post];
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= spec.targets)
      return BadInput("leaf target {}; allowed: 0 to {}", targets[i], spec.targets - 1);
    spec.weights.push_back({targets[i], weights[i]});
    spec.leaf_begin.push_back(i + 1);
  }
  for (size_t i = 0; i < n; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= 6)) return BadInput("node mode {}; allowed: 0 to 6", modes[i]);
    TENON_RETURN_IF_ERROR(SetFeature(features[i], i, &spec));
    TreeSpec::Node node;
    node.mode = static_cast<Mode>(static_cast<int>(modes[i]));
    node.missing_is_true = !missing.empty() && missing[i] != 0;
    node.feature = features[i];
    node.split = splits[i];
    for (const auto& [leaf, to, branch] : {std::tuple{yes_leaf[i], yes[i], &node.if_true}, {no_leaf[i], no[i], &node.if_false}}) {
      const size_t limit = leaf != 0 ? weights.size() : n;
      if (to < 0 || static_cast<size_t>(to) >= limit) return BadInput("node {} branches to {} of {}", i, to, limit);
      *branch = leaf != 0 ? ~to : to;
    }
    spec.nodes.push_back(node);
  }
  TENON_RETURN_IF_ERROR(ReadSets(std::move(members), &spec));
  for (const int64_t r : attrs.Ints("tree_roots")) {
    if (r < 0 || static_cast<size_t>(r) >= n) return BadInput("tree root {}; allowed: below {}", r, n);
    spec.roots.push_back(r);
  }
  TENON_RETURN_IF_ERROR(CheckAcyclic(spec));
  return spec;
}

}  // namespace tenon::kernels::ml
