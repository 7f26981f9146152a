// A TreeSpec laid out as a Forest.
#include "kernels/ml/forest.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::kernels::ml {
namespace {

// What a branch leads to while a tree is laid out: a node or a leaf of the spec, or a part of a test that takes two steps.
struct Target {
  enum Kind : uint8_t { kRef, kEqualLow, kSet, kSetLow };
  Kind kind = kRef;
  TreeSpec::Ref ref = 0;        // node or leaf
  size_t begin = 0, end = 0;    // kSet: members still possible; kSetLow: the member asked for and the end of those below it
};

template <typename T>
struct Step {
  T threshold;
  int64_t feature;
  Target first, second;         // !(x > threshold), x > threshold
  bool nan_second;
};

template <typename T>
class Builder {
 public:
  explicit Builder(const TreeSpec& spec) : spec_(spec) {}

  Result<Forest<T>> Build() {
    CollectFeatures();
    const size_t n = spec_.nodes.size() + spec_.leaves() + 2 * spec_.members.size() + spec_.roots.size();
    limit_ = std::min<size_t>(8 * n + 64, std::numeric_limits<uint32_t>::max() / 2);
    CollectWeights();
    for (const TreeSpec::Ref root : spec_.roots) TENON_RETURN_IF_ERROR(AddTree(root));
    out_.visits = std::max(out_.visits, 1.0);
    return std::move(out_);
  }

 private:
  static constexpr T kInf = std::numeric_limits<T>::infinity();

  void CollectFeatures() {
    number_.assign(static_cast<size_t>(spec_.features), 0);
    for (const auto& node : spec_.nodes) number_[static_cast<size_t>(node.feature)] = 1;
    for (size_t f = 0; f < number_.size(); ++f) {
      if (number_[f] == 0) continue;
      number_[f] = static_cast<uint32_t>(out_.features.size());
      out_.features.push_back(static_cast<uint32_t>(f));
    }
    if (out_.features.empty()) out_.features.push_back(0);   // trees of one leaf read nothing; a leaf's step reads something
  }

  void CollectWeights() {
    out_.single = !spec_.weights.empty();
    for (size_t i = 0; i < spec_.leaves(); ++i) {
      out_.single = out_.single && spec_.leaf_begin[i + 1] == spec_.leaf_begin[i] + 1;
    }
    for (const auto& w : spec_.weights) out_.single = out_.single && w.target == spec_.weights[0].target;
    if (out_.single) {
      out_.target = static_cast<uint32_t>(spec_.weights[0].target);
      return;
    }
    for (const auto& w : spec_.weights) out_.weights.push_back({static_cast<uint32_t>(w.target), static_cast<T>(w.value)});
    out_.leaf_begin.assign(spec_.leaf_begin.begin(), spec_.leaf_begin.end());
  }

  static T Before(T t) { return std::nextafter(t, -kInf); }

  // "x > t" leads to `second`, anything else to `first`, NaN to `nan` (one of the two).
  static Step<T> Greater(T t, int64_t feature, const Target& first, const Target& second, bool nan_second) {
    return {t, feature, first, second, nan_second};
  }
  // Every number leads to `always`, NaN to `nan`.
  static Step<T> Always(int64_t feature, const Target& always, const Target& nan) { return {kInf, feature, always, nan, true}; }

  Step<T> StepOf(const Target& at) const {
    if (at.kind == Target::kSet || at.kind == Target::kSetLow) return SetStep(at);
    const auto& n = spec_.nodes[static_cast<size_t>(at.ref)];
    const auto t = static_cast<T>(n.split);
    const Target yes{Target::kRef, n.if_true}, no{Target::kRef, n.if_false};
    const Target& nan = n.missing_is_true || n.mode == Mode::kNeq ? yes : no;
    const bool nan_yes = &nan == &yes;
    if (at.kind == Target::kEqualLow) {   // known: not x > t
      return n.mode == Mode::kEq ? Greater(Before(t), n.feature, no, yes, nan_yes)
                                 : Greater(Before(t), n.feature, yes, no, !nan_yes);
    }
    const bool lowest = t == -kInf;
    const Target low{Target::kEqualLow, at.ref};
    switch (n.mode) {
      case Mode::kLeq: return std::isnan(t) ? Always(n.feature, no, nan) : Greater(t, n.feature, yes, no, !nan_yes);
      case Mode::kLt:
        return std::isnan(t) || lowest ? Always(n.feature, no, nan) : Greater(Before(t), n.feature, yes, no, !nan_yes);
      case Mode::kGt: return Greater(t, n.feature, no, yes, nan_yes);
      case Mode::kGte:
        if (std::isnan(t)) return Always(n.feature, no, nan);
        return lowest ? Always(n.feature, yes, nan) : Greater(Before(t), n.feature, no, yes, nan_yes);
      case Mode::kEq:
        if (std::isnan(t)) return Always(n.feature, no, nan);
        return Greater(t, n.feature, lowest ? yes : low, no, !nan_yes);
      case Mode::kNeq:
        if (std::isnan(t)) return Always(n.feature, yes, nan);
        return Greater(t, n.feature, lowest ? no : low, yes, true);
      case Mode::kMember:
        if (n.set_begin == n.set_end) return Always(n.feature, no, nan);
        return SetStep({Target::kSet, at.ref, n.set_begin, n.set_end});
    }
    return Always(n.feature, no, nan);
  }

  // A set is searched by halves. NaN keeps to the larger side, which ends in "no", or leaves it at once for "yes".
  Step<T> SetStep(const Target& at) const {
    const auto& n = spec_.nodes[static_cast<size_t>(at.ref)];
    const Target yes{Target::kRef, n.if_true}, no{Target::kRef, n.if_false};
    const auto part = [&](size_t begin, size_t end) { return begin == end ? no : Target{Target::kSet, at.ref, begin, end}; };
    if (at.kind == Target::kSetLow) {   // known: not x > members[end]
      const auto member = static_cast<T>(spec_.members[at.end]);
      return Greater(Before(member), n.feature, part(at.begin, at.end), yes, n.missing_is_true);
    }
    const size_t middle = at.begin + (at.end - at.begin) / 2;
    const auto member = static_cast<T>(spec_.members[middle]);
    const Target low = member == -kInf ? yes : Target{Target::kSetLow, at.ref, at.begin, middle};
    return Greater(member, n.feature, low, part(middle + 1, at.end), !n.missing_is_true);
  }

  Status AddTree(TreeSpec::Ref root) {
    std::vector<Target> level = {{Target::kRef, root}}, next;
    const auto first = static_cast<uint32_t>(out_.nodes.size());
    out_.trees.push_back({first, 0});
    Grow(1);
    uint32_t at = first, depth = 0;
    bool ended = false;
    double reached = 1, sum = 0;   // as if each child were as likely
    for (; !level.empty(); ++depth, level.swap(next)) {
      next.clear();
      if (out_.nodes.size() > limit_) {
        return BadInput("tree {} has more than {} nodes once every branch has its own: nodes are shared by several parents",
                        out_.trees.size() - 1, limit_);
      }
      size_t leaves = 0;
      for (const Target& target : level) {
        if (target.kind == Target::kRef && target.ref < 0) {
          SetLeaf(at++, static_cast<size_t>(~target.ref));
          ++leaves;
          continue;
        }
        const Step<T> step = StepOf(target);
        const auto child = static_cast<uint32_t>(out_.nodes.size());
        Grow(2);
        out_.nodes[at] = {step.threshold, static_cast<uint32_t>(kLanes) * number_[static_cast<size_t>(step.feature)], child};
        out_.nan_second[at++] = step.nan_second ? 1 : 0;
        next.push_back(step.first);
        next.push_back(step.second);
      }
      if (leaves != 0 && !ended) {
        ended = true;
        out_.trees.back().least_depth = depth;
      }
      const double inner = static_cast<double>(level.size() - leaves) / static_cast<double>(level.size());
      sum += reached *= inner;
    }
    out_.visits += sum;
    return {};
  }

  void Grow(size_t n) {
    out_.nodes.resize(out_.nodes.size() + n);
    out_.nan_second.resize(out_.nodes.size());
    (out_.single ? void(out_.value.resize(out_.nodes.size())) : void(out_.leaf.resize(out_.nodes.size())));
  }

  void SetLeaf(uint32_t at, size_t leaf) {
    out_.nodes[at] = {kInf, 0, at};
    if (out_.single) {
      out_.value[at] = static_cast<T>(spec_.weights[spec_.leaf_begin[leaf]].value);
    } else {
      out_.leaf[at] = static_cast<uint32_t>(leaf);
    }
  }

  const TreeSpec& spec_;
  Forest<T> out_;
  std::vector<uint32_t> number_;   // of a column among the used ones
  size_t limit_ = 0;
};

// Trees that one row walks at once: more than rows of one tree, since their nodes come from further away.
constexpr int64_t kTreeWalks = 16;

// One step of all walks, until all have ended; the first `least` steps need no look at that.
template <typename T, bool kNans, bool kRows, int64_t kWalks>
void Walk(const Forest<T>& forest, const T* x, uint32_t least, uint32_t* leaves) {
  const typename Forest<T>::Node* nodes = forest.nodes.data();
  const uint8_t* nan_second = forest.nan_second.data();
  uint32_t at[kWalks];
  for (int64_t k = 0; k < kWalks; ++k) at[k] = leaves[k];
  const auto step = [&](int64_t k) {
    const auto& n = nodes[at[k]];
    const T v = x[n.feature + static_cast<uint32_t>(kRows ? k : 0)];
    uint32_t second = v > n.threshold ? 1 : 0;
    if constexpr (kNans) second |= static_cast<uint32_t>(v != v) & nan_second[at[k]];
    return n.child + second;
  };
  for (uint32_t d = 0; d < least; ++d) {
#pragma GCC unroll 16
    for (int64_t k = 0; k < kWalks; ++k) at[k] = step(k);
  }
  uint32_t moved = 1;
  while (moved != 0) {
    moved = 0;
#pragma GCC unroll 16
    for (int64_t k = 0; k < kWalks; ++k) {
      const uint32_t next = step(k);
      moved |= next ^ at[k];
      at[k] = next;
    }
  }
  for (int64_t k = 0; k < kWalks; ++k) leaves[k] = at[k];
}

}  // namespace

template <typename T>
Result<Forest<T>> BuildForest(const TreeSpec& spec) {
  return Builder<T>(spec).Build();
}

template <typename T>
void WalkRows(const Forest<T>& forest, const T* x, bool nans, size_t tree, uint32_t* leaves) {
  const auto& t = forest.trees[tree];
  for (int64_t k = 0; k < kLanes; ++k) leaves[k] = t.root;
  nans ? Walk<T, true, true, kLanes>(forest, x, t.least_depth, leaves)
       : Walk<T, false, true, kLanes>(forest, x, t.least_depth, leaves);
}

template <typename T>
void WalkTrees(const Forest<T>& forest, const T* x, bool nans, size_t begin, size_t end, uint32_t* leaves) {
  for (size_t t = begin; t < end; t += static_cast<size_t>(kTreeWalks)) {
    const size_t n = std::min(static_cast<size_t>(kTreeWalks), end - t);
    uint32_t at[kTreeWalks], least = ~uint32_t{0};
    for (size_t k = 0; k < static_cast<size_t>(kTreeWalks); ++k) {
      const auto& tree = forest.trees[t + std::min(k, n - 1)];
      at[k] = tree.root;
      least = std::min(least, tree.least_depth);
    }
    nans ? Walk<T, true, false, kTreeWalks>(forest, x, least, at) : Walk<T, false, false, kTreeWalks>(forest, x, least, at);
    for (size_t k = 0; k < n; ++k) leaves[t - begin + k] = at[k];
  }
}

template Result<Forest<float>> BuildForest(const TreeSpec&);
template Result<Forest<double>> BuildForest(const TreeSpec&);
template void WalkRows(const Forest<float>&, const float*, bool, size_t, uint32_t*);
template void WalkRows(const Forest<double>&, const double*, bool, size_t, uint32_t*);
template void WalkTrees(const Forest<float>&, const float*, bool, size_t, size_t, uint32_t*);
template void WalkTrees(const Forest<double>&, const double*, bool, size_t, size_t, uint32_t*);

}  // namespace tenon::kernels::ml
