// BindCapturedConstants: a constant that a body captures becomes a constant of the body, so that the passes and the weight
// packing inside see it. The elements are shared, not copied.
#include "ops/control_flow.h"
#include "passes/pass.h"

namespace tenon::passes {
namespace {

bool Bind(Rewriter& r, NodeId id) {
  ir::Graph& g = r.graph();
  bool changed = false;
  const auto captures = static_cast<size_t>(ops::NumCaptures(r.node(id)));
  for (size_t k = 0; k < captures && !r.node(id).bodies.empty(); ++k) {
    const ValueId outer = r.In(id, r.node(id).inputs.size() - captures + k);
    if (!r.IsConst(outer)) continue;
    for (const auto& body : g.node(id).bodies) {
      if (body->inputs().size() < captures) continue;
      const ValueId inner = body->inputs()[body->inputs().size() - captures + k];
      if (body->UseCount(inner) == 0) continue;
      const ValueId constant = body->AddConstant(body->value(inner).name, r.value(outer).constant);
      ir::Patch(*body).Replace(inner, constant);
      r.Changed();
      changed = true;
    }
  }
  return changed;
}

}  // namespace

Status BindCapturedConstants(Rewriter& r) {
  return ApplyRules(r, {}, {Bind});
}

}  // namespace tenon::passes
