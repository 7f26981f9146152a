// TransposeOptimizer: transposes merge, cancel, and become views where they move extents of 1 only.
//   T2(T1(x)) = T(x);   T2(reshape(T1(x))) = reshape(x) where the order of the elements is the same in the end
#include <algorithm>
#include <numeric>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/reshape_target.h"

namespace tenon::passes {

std::optional<std::vector<int64_t>> PermutationOf(const Rewriter& r, NodeId id) {
  const int rank = r.RankOf(r.In(id, 0));
  std::vector<int64_t> perm = r.node(id).attrs.Ints("perm");
  if (rank < 0) return std::nullopt;
  if (perm.empty()) {
    for (int i = rank; i-- > 0;) perm.push_back(i);
  }
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < rank; ++i) {
    if (static_cast<int>(sorted.size()) != rank || sorted[static_cast<size_t>(i)] != i) return std::nullopt;
  }
  return perm;
}

ValueId AddTranspose(Rewriter& r, ValueId x, const std::vector<int64_t>& perm, NodeId origin) {
  Attrs attrs;
  attrs.Set("perm", perm);
  return r.Add("Transpose", {x}, attrs, origin);
}

namespace {

bool IsView(std::string_view op) {
  return op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze";
}

bool MergeTransposes(Rewriter& r, NodeId id) {
  const NodeId inner = r.Producer(r.In(id, 0), "Transpose");
  if (inner == kNone) return false;
  const auto p = PermutationOf(r, inner);
  const auto q = PermutationOf(r, id);
  if (!p || !q || p->size() != q->size()) return false;
  std::vector<int64_t> merged;
  bool identity = true;
  for (size_t i = 0; i < q->size(); ++i) {
    merged.push_back((*p)[static_cast<size_t>((*q)[i])]);
    identity = identity && merged.back() == static_cast<int64_t>(i);
  }
  const ValueId x = r.In(inner, 0);
  if (identity) {
    ir::Graph& g = r.graph();
    if (g.IsOutput(r.Out(id)) && (g.IsInput(x) || g.IsOutput(x) || g.IsConstant(x))) return false;
    r.Replace(r.Out(id), x);
    return true;
  }
  const ValueId y = AddTranspose(r, x, merged, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

// Only extents of 1 change their place: the elements stay in order.
bool TransposeIsView(Rewriter& r, NodeId id) {
  const auto perm = PermutationOf(r, id);
  if (!perm) return false;
  const SymShape from = r.ShapeOf(r.In(id, 0));
  int64_t last = -1;
  for (int64_t axis : *perm) {
    if (from[static_cast<int>(axis)].Is(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  std::vector<Dim> to;
  for (int64_t axis : *perm) to.push_back(from[static_cast<int>(axis)]);
  const ValueId y = ReshapeTo(r, r.In(id, 0), SymShape(to), id);
  if (y == kNone || y == r.In(id, 0)) return false;
  r.Replace(r.Out(id), y);
  return true;
}

// For a reshape that only merges neighbours or moves extents of 1: for each output axis the run of input axes it is made of.
std::optional<std::vector<std::vector<int>>> MergedAxes(const SymShape& from, const SymShape& to) {
  if (!from.has_rank() || !to.has_rank()) return std::nullopt;
  std::vector<std::vector<int>> runs;
  int at = 0;
  for (int i = 0; i < to.rank(); ++i) {
    runs.emplace_back();
    if (to[i].is_unknown()) return std::nullopt;
    if (to[i].Is(1)) continue;
    Dim product(1);
    while (!(product == to[i])) {
      if (at >= from.rank() || from[at].is_unknown()) return std::nullopt;
      if (!from[at].Is(1)) runs.back().push_back(at);
      product = product * from[at++];
    }
  }
  for (; at < from.rank(); ++at) {
    if (!from[at].Is(1)) return std::nullopt;
  }
  return runs;
}

bool TransposeReshapeTranspose(Rewriter& r, NodeId id) {
  const NodeId view = r.Producer(r.In(id, 0));
  if (view == kNone || !IsView(r.node(view).op)) return false;
  const NodeId inner = r.Producer(r.In(view, 0), "Transpose");
  if (inner == kNone) return false;
  const auto p = PermutationOf(r, inner);
  const auto q = PermutationOf(r, id);
  const auto runs = MergedAxes(r.ShapeOf(r.In(view, 0)), r.ShapeOf(r.Out(view)));
  if (!p || !q || !runs || runs->size() != q->size()) return false;
  int64_t last = -1;
  for (int64_t axis : *q) {
    for (int merged : (*runs)[static_cast<size_t>(axis)]) {
      const int64_t source = (*p)[static_cast<size_t>(merged)];
      if (source < last) return false;
      last = source;
    }
  }
  const ValueId y = ReshapeTo(r, r.In(inner, 0), r.ShapeOf(r.Out(id)), id);
  if (y == kNone || y == r.In(inner, 0)) return false;
  r.Replace(r.Out(id), y);
  return true;
}

}  // namespace

Status TransposeOptimizer(Rewriter& r) {
  return ApplyRules(r, {"Transpose"}, {MergeTransposes, TransposeIsView, TransposeReshapeTranspose});
}

}  // namespace tenon::passes
