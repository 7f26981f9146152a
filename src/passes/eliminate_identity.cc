// EliminateIdentity: nodes whose output is one of their inputs.
#include <algorithm>
#include <limits>

#include "passes/pass.h"

namespace tenon::passes {
namespace {

bool AllAre(const std::optional<std::vector<int64_t>>& list, int64_t x) {
  return list && std::all_of(list->begin(), list->end(), [x](int64_t v) { return v == x; });
}

bool SameType(const Rewriter& r, ValueId a, ValueId b) {
  return r.TypeOf(a) == r.TypeOf(b) && r.TypeOf(a) != DType::kUndefined && !r.value(a).is_sequence && !r.value(b).is_sequence;
}

// Same type and provably the same extents.
bool SameShape(const Rewriter& r, ValueId a, ValueId b) {
  return SameType(r, a, b) && r.ShapeOf(a).has_rank() && r.ShapeOf(a) == r.ShapeOf(b);
}

bool IsIdentityPermutation(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return !perm.empty();
}

// Whether an axis as long as `extent` would make the tensor larger than what a process can address.
bool BeyondMemory(const Rewriter& r, ValueId x, size_t axis, int64_t extent) {
  double bytes = DTypeBits(r.TypeOf(x)) / 8.0 * static_cast<double>(extent);
  for (int i = 0; i < r.RankOf(x); ++i) {
    if (const int64_t e = r.ExtentOf(x, i); static_cast<size_t>(i) != axis && e >= 0) bytes *= static_cast<double>(e);
  }
  return bytes > 0x1p47;
}

// Starts of 0, steps of 1 and ends beyond every possible extent, or an output as large as the input. Other starts and ends
// may be relative to the end and say nothing without the extents.
bool SliceKeepsAll(const Rewriter& r, NodeId id) {
  const auto steps = r.In(id, 4);
  if (steps != kNone && !AllAre(r.ConstInts(steps), 1)) return false;
  if (SameShape(r, r.Out(id), r.In(id, 0))) return true;
  const auto ends = r.ConstInts(r.In(id, 2));
  if (!AllAre(r.ConstInts(r.In(id, 1)), 0) || !ends) return false;
  const ValueId axes = r.In(id, 3), x = r.In(id, 0);
  const auto named = r.ConstInts(axes);
  for (size_t i = 0; i < ends->size(); ++i) {
    if ((*ends)[i] >= std::numeric_limits<int32_t>::max()) continue;
    if (r.RankOf(x) < 0 || (axes != kNone && (!named || i >= named->size()))) return false;
    const int64_t axis = axes == kNone ? static_cast<int64_t>(i) : (*named)[i];
    const int64_t extent = r.ExtentOf(x, static_cast<int>(axis));
    const auto at = static_cast<size_t>(axis < 0 ? axis + r.RankOf(x) : axis);
    if (extent >= 0 ? (*ends)[i] < extent : !BeyondMemory(r, x, at, (*ends)[i])) return false;
  }
  return true;
}

bool OneInput(const Rewriter& r, NodeId id) {
  return r.node(id).inputs.size() == 1;
}

bool HasUnitOperand(const Rewriter& r, NodeId id, size_t side, double unit, ValueId* kept) {
  if (!SameType(r, r.In(id, 0), r.In(id, 1))) return false;
  const auto s = r.Scalar(r.In(id, side));
  if (!s || *s != unit) return false;
  *kept = r.In(id, 1 - side);
  return SameShape(r, r.Out(id), *kept);
}

// The input that the node merely passes on, or kNone.
ValueId PassedOn(const Rewriter& r, NodeId id) {
  const std::string& op = r.node(id).op;
  const ValueId x = r.In(id, 0);
  ValueId kept = kNone;
  if (op == "Identity") return x;
  if (x == kNone) return kNone;
  if (op == "Cast" || op == "CastLike") return SameType(r, r.Out(id), x) ? x : kNone;
  if (op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze" || op == "Expand") {
    return SameShape(r, r.Out(id), x) ? x : kNone;
  }
  if (op == "Transpose") return IsIdentityPermutation(r.node(id).attrs.Ints("perm")) ? x : kNone;
  if (op == "Slice") return SliceKeepsAll(r, id) ? x : kNone;
  if (op == "Pad") return AllAre(r.ConstInts(r.In(id, 1)), 0) ? x : kNone;
  if (op == "Tile") return AllAre(r.ConstInts(r.In(id, 1)), 1) ? x : kNone;
  if (op == "Concat" || op == "Max" || op == "Min" || op == "Sum" || op == "Mean") return OneInput(r, id) ? x : kNone;
  if (op == "Clip") return r.In(id, 1) == kNone && r.In(id, 2) == kNone ? x : kNone;
  if (op == "Mul") return HasUnitOperand(r, id, 1, 1, &kept) || HasUnitOperand(r, id, 0, 1, &kept) ? kept : kNone;
  if (op == "Add") return HasUnitOperand(r, id, 1, 0, &kept) || HasUnitOperand(r, id, 0, 0, &kept) ? kept : kNone;
  if (op == "Sub") return HasUnitOperand(r, id, 1, 0, &kept) ? kept : kNone;
  if (op == "Div" || op == "Pow") return HasUnitOperand(r, id, 1, 1, &kept) ? kept : kNone;
  return kNone;
}

bool Eliminate(Rewriter& r, NodeId id) {
  if (r.node(id).outputs.empty() || r.node(id).outputs[0] == kNone) return false;
  const ValueId out = r.Out(id);
  const ValueId kept = PassedOn(r, id);
  if (kept == kNone) return false;
  for (size_t i = 1; i < r.node(id).outputs.size(); ++i) {
    if (r.node(id).outputs[i] != kNone) return false;
  }
  ir::Graph& g = r.graph();
  if (g.IsOutput(out) && (g.IsInput(kept) || g.IsOutput(kept) || g.IsConstant(kept))) {
    // Two names of the interface for one value: a copy has to remain, the cheapest is Identity.
    if (r.node(id).op == "Identity") return false;
    const ValueId copy = r.Add("Identity", {kept}, {}, id);
    if (copy == kNone) return false;
    r.Replace(out, copy);
    return true;
  }
  r.Replace(out, kept);
  return true;
}

// View of a view of x with the shape of x: x itself.
bool UndoViews(Rewriter& r, NodeId id) {
  const ValueId out = r.Out(id);
  if (r.graph().IsOutput(out)) return false;
  NodeId at = id;
  while (at != kNone) {
    const kernels::OpKernels* op = kernels::FindOp(r.node(at).op);
    if (op == nullptr || !op->is_view) return false;
    const ValueId source = r.In(at, 0);
    if (at != id && SameShape(r, out, source)) {
      r.Replace(out, source);
      return true;
    }
    at = r.Producer(source);
  }
  return false;
}

}  // namespace

Status EliminateIdentity(Rewriter& r) {
  TENON_RETURN_IF_ERROR(ApplyRules(r, {}, {Eliminate}));
  return ApplyRules(r, {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}, {UndoViews});
}

}  // namespace tenon::passes
