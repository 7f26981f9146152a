// DeadCodeElimination: nodes and constants that no output needs, and captures that no body reads.
#include "ops/control_flow.h"
#include "passes/pass.h"

namespace tenon::passes {
namespace {

bool DropUnusedCaptures(Rewriter& r, NodeId id) {
  ir::Graph& g = r.graph();
  if (r.node(id).bodies.empty()) return false;
  bool changed = false;
  const auto captures = static_cast<size_t>(ops::NumCaptures(r.node(id)));
  for (size_t k = captures; k-- > 0;) {
    const size_t left = static_cast<size_t>(ops::NumCaptures(r.node(id)));
    const size_t from_end = left - k;
    bool used = false;
    for (const auto& body : g.node(id).bodies) {
      if (body->inputs().size() < from_end) return changed;
      used = used || body->UseCount(body->inputs()[body->inputs().size() - from_end]) > 0;
    }
    if (used) continue;
    const size_t index = r.node(id).inputs.size() - from_end;
    const ValueId outer = r.In(id, index);
    g.EraseNodeInput(id, index);
    if (outer != kNone) r.EraseIfUnused(r.value(outer).producer);
    for (const auto& body : g.node(id).bodies) {
      const size_t i = body->inputs().size() - from_end;
      const ValueId inner = body->inputs()[i];
      body->RemoveInput(i);
      body->RemoveValue(inner);
    }
    g.node(id).attrs.Set("captures", static_cast<int64_t>(left - 1));
    r.Changed();
    changed = true;
  }
  return changed;
}

}  // namespace

Status DeadCodeElimination(Rewriter& r) {
  TENON_RETURN_IF_ERROR(ApplyRules(r, {}, {DropUnusedCaptures}));
  for (int removed = r.patch().RemoveDead(); removed > 0; --removed) r.Changed();
  return Status::Ok();
}

}  // namespace tenon::passes
