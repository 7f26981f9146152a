#include "passes/reshape_target.h"

namespace tenon::passes {

std::optional<std::vector<int64_t>> ReshapeTarget(const SymShape& from, const SymShape& to) {
  if (!from.has_rank() || !to.has_rank()) return std::nullopt;
  std::vector<int64_t> target;
  bool inferred = false;
  Dim rest_from(1);
  for (int i = 0; i < from.rank(); ++i) {
    if (from[i].is_unknown()) return std::nullopt;
    rest_from = rest_from * from[i];
  }
  Dim rest_to(1);
  for (int i = 0; i < to.rank(); ++i) {
    if (to[i].is_unknown() || to[i].Is(0)) return std::nullopt;
    rest_to = rest_to * to[i];
    if (to[i].is_const()) {
      target.push_back(to[i].value());
    } else if (i < from.rank() && from[i] == to[i]) {
      target.push_back(0);
    } else if (!inferred) {
      target.push_back(-1);
      inferred = true;
    } else {
      return std::nullopt;
    }
  }
  // An inferred extent is right only if both shapes are known to hold the same number of elements.
  if (!(rest_from == rest_to)) return std::nullopt;
  return target;
}

ValueId ReshapeTo(Rewriter& r, ValueId x, const SymShape& to, NodeId origin) {
  if (r.ShapeOf(x).has_rank() && r.ShapeOf(x) == to) return x;
  const auto target = ReshapeTarget(r.ShapeOf(x), to);
  if (!target) return kNone;
  const ValueId y = r.Add("Reshape", {x, r.Ints("shape", *target)}, {}, origin);
  return y;
}

}  // namespace tenon::passes
