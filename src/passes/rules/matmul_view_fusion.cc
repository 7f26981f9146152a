// MatMulViewFusion: a matrix product with weights of rank 2 works on rows, whatever the axes before the last are.
//   reshape(reshape(x) W) = x W               where the reshapes only merge those axes and part them again
//   transpose(x) W        = transpose(x W)    where the last axis stays and what follows moves elements too
#include <algorithm>

#include "passes/pass.h"
#include "passes/permutation.h"

namespace tenon::passes {
namespace {

bool IsView(std::string_view op) {
  return op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze";
}

bool WorksOnRows(const Rewriter& r, NodeId id) {
  const std::string& op = r.node(id).op;
  if ((op != "MatMul" && op != "FusedMatMul") || r.RankOf(r.In(id, 1)) != 2 || r.RankOf(r.In(id, 0)) < 2) return false;
  return r.node(id).attrs.Int("transA", 0) == 0 && r.In(id, 3) == kNone;
}

bool SkipReshapes(Rewriter& r, NodeId id) {
  const NodeId product = r.SoleProducer(r.In(id, 0));
  if (product == kNone || !WorksOnRows(r, product)) return false;
  const NodeId before = r.Producer(r.In(product, 0));
  if (before == kNone || !IsView(r.node(before).op)) return false;
  const ValueId x = r.In(before, 0);
  const int rank = r.RankOf(x);
  if (rank < 2 || rank != r.RankOf(r.Out(id))) return false;
  const SymShape& from = r.ShapeOf(x);
  const SymShape& to = r.ShapeOf(r.Out(id));
  const SymShape& inner = r.ShapeOf(r.In(product, 0));
  const SymShape& result = r.ShapeOf(r.Out(product));
  if (!(from[rank - 1] == inner[inner.rank() - 1]) || !(to[rank - 1] == result[result.rank() - 1])) return false;
  for (int i = 0; i + 1 < rank; ++i) {
    if (!(from[i] == to[i])) return false;
  }
  std::vector<ValueId> inputs = r.node(product).inputs;
  inputs[0] = x;
  const ValueId y = r.Add(r.node(product).op, inputs, r.node(product).attrs, product);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

bool SinkTranspose(Rewriter& r, NodeId id) {
  if (!WorksOnRows(r, id)) return false;
  const NodeId t = r.Producer(r.In(id, 0), "Transpose");
  const auto perm = t == kNone ? std::nullopt : PermutationOf(r, t);
  if (!perm || perm->size() < 3 || perm->back() != static_cast<int64_t>(perm->size()) - 1) return false;
  const ValueId y = r.Out(id);
  const auto& readers = r.value(y).consumers;
  const bool moved_on = !readers.empty() && !r.graph().IsOutput(y) && std::all_of(readers.begin(), readers.end(), [&](NodeId n) {
    return r.node(n).op == "Transpose" || IsView(r.node(n).op);
  });
  if (!moved_on) return false;
  std::vector<ValueId> inputs = r.node(id).inputs;
  inputs[0] = r.In(t, 0);
  const ValueId product = r.Add(r.node(id).op, inputs, r.node(id).attrs, id);
  const ValueId turned = product == kNone ? kNone : AddTranspose(r, product, *perm, t);
  if (turned == kNone) return false;
  r.Replace(y, turned);
  return true;
}

}  // namespace

Status MatMulViewFusion(Rewriter& r) {
  TENON_RETURN_IF_ERROR(ApplyRules(r, {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}, {SkipReshapes}));
  return ApplyRules(r, {"MatMul", "FusedMatMul"}, {SinkTranspose});
}

}  // namespace tenon::passes
