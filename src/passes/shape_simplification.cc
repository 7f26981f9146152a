// ShapeSimplification: what shape arithmetic computes at run time is often known up to symbols. Reshape and Expand get constant
// targets, chains of views become one Reshape, so that the Shape, Gather and Concat nodes that fed them fall away.
#include <algorithm>

#include "passes/pass.h"
#include "passes/reshape_target.h"

namespace tenon::passes {
namespace {

bool IsView(std::string_view op) {
  return op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze";
}

// Reshape by a computed target -> the same by a constant one.
bool ConstantTarget(Rewriter& r, NodeId id) {
  if (r.node(id).op != "Reshape" || r.IsConst(r.In(id, 1))) return false;
  const auto target = ReshapeTarget(r.ShapeOf(r.In(id, 0)), r.ShapeOf(r.Out(id)));
  if (!target) return false;
  const ValueId y = r.Add("Reshape", {r.In(id, 0), r.Ints("shape", *target)}, {}, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

// A target of elements that are known one by one, where the whole shape is not a question of arithmetic: [0, -1, 768] with
// extents that come from the input's own Shape.
bool TargetFromElements(Rewriter& r, NodeId id) {
  if (r.node(id).op != "Reshape" || r.IsConst(r.In(id, 1)) || r.node(id).attrs.Int("allowzero", 0) != 0) return false;
  const auto& elements = r.value(r.In(id, 1)).elements;
  const SymShape& from = r.ShapeOf(r.In(id, 0));
  if (!elements || !from.has_rank()) return false;
  std::vector<int64_t> target;
  int inferred = 0;
  for (size_t i = 0; i < elements->size(); ++i) {
    const Dim& e = (*elements)[i];
    if (e.is_const()) {
      target.push_back(e.value());
      inferred += e.Is(-1) ? 1 : 0;
    } else if (static_cast<int>(i) < from.rank() && from[static_cast<int>(i)] == e) {
      target.push_back(0);
    } else {
      target.push_back(-1);
      ++inferred;
    }
  }
  if (inferred > 1) return false;
  const ValueId y = r.Add("Reshape", {r.In(id, 0), r.Ints("shape", target)}, {}, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

// Expand keeps an extent where its target says 1.
bool ExpandTarget(Rewriter& r, NodeId id) {
  if (r.IsConst(r.In(id, 1))) return false;
  const ValueId x = r.In(id, 0);
  const SymShape& from = r.ShapeOf(x);
  const SymShape& to = r.ShapeOf(r.Out(id));
  if (!from.has_rank() || !to.has_rank() || to.rank() < from.rank()) return false;
  std::vector<int64_t> target;
  for (int i = 0; i < to.rank(); ++i) {
    const int j = i - (to.rank() - from.rank());
    if (to[i].is_const()) {
      target.push_back(to[i].value());
    } else if (j >= 0 && from[j] == to[i]) {
      target.push_back(1);
    } else {
      return false;
    }
  }
  const ValueId y = r.Add("Expand", {x, r.Ints("shape", target)}, {}, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

// view(view(x)) = Reshape(x)
bool MergeViews(Rewriter& r, NodeId id) {
  if (!IsView(r.node(id).op)) return false;
  const NodeId inner = r.SoleProducer(r.In(id, 0));
  if (inner == kNone || !IsView(r.node(inner).op)) return false;
  const auto target = ReshapeTarget(r.ShapeOf(r.In(inner, 0)), r.ShapeOf(r.Out(id)));
  if (!target) return false;
  const ValueId y = r.Add("Reshape", {r.In(inner, 0), r.Ints("shape", *target)}, {}, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

}  // namespace

Status ShapeSimplification(Rewriter& r) {
  TENON_RETURN_IF_ERROR(ApplyRules(r, {"Reshape"}, {ConstantTarget, TargetFromElements}));
  return ApplyRules(r, {"Expand"}, {ExpandTarget});
}

Status ReshapeFusion(Rewriter& r) {
  return ApplyRules(r, {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}, {MergeViews});
}

}  // namespace tenon::passes
