// CommonSubexpressionElimination: equal operators on equal inputs with equal attributes give equal outputs; equal constants
// are one constant.
#include <map>
#include <tuple>
#include <unordered_map>

#include "passes/pass.h"

namespace tenon::passes {
namespace {

// Larger constants are merged only when they share their bytes: comparing all weights of a model costs more than it brings.
constexpr size_t kMaxComparedBytes = 4096;

void MergeConstants(Rewriter& r) {
  std::multimap<std::tuple<DType, size_t, const void*, uint64_t>, ValueId> seen;
  ir::Graph& g = r.graph();
  for (size_t i = 0; i < g.num_value_slots(); ++i) {
    const auto id = static_cast<ValueId>(i);
    const ir::Value& v = r.value(id);
    if (v.dead || !v.constant.defined() || v.consumers.empty()) continue;
    const View view = v.constant.view();
    const bool small = view.bytes() <= kMaxComparedBytes && view.dtype != DType::kString;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t b = 0; small && b < view.bytes(); ++b) hash = (hash ^ view.Data<uint8_t>()[b]) * 0x100000001b3u;
    const std::tuple key(view.dtype, view.bytes(), small ? nullptr : view.data, hash);
    bool merged = false;
    for (auto [it, end] = seen.equal_range(key); it != end && !merged; ++it) {
      if (!SameTensor(view, r.value(it->second).constant.view())) continue;
      g.ReplaceNodeUses(id, it->second);
      r.Changed();
      merged = true;
    }
    if (!merged) seen.emplace(key, id);
  }
}

size_t HashOf(const ir::Node& n) {
  size_t h = std::hash<std::string>()(n.op) * 31 + n.outputs.size();
  for (ValueId v : n.inputs) h = h * 1000003 + static_cast<size_t>(v) + 7;
  return h;
}

bool SameNode(const ir::Node& a, const ir::Node& b) {
  if (a.op != b.op || a.inputs != b.inputs || a.outputs.size() != b.outputs.size() || !(a.attrs == b.attrs)) return false;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if ((a.outputs[i] == kNone) != (b.outputs[i] == kNone)) return false;
  }
  return true;
}

}  // namespace

Status CommonSubexpressionElimination(Rewriter& r) {
  MergeConstants(r);
  ir::Graph& g = r.graph();
  TENON_ASSIGN_OR_RETURN(const auto order, g.TopologicalOrder());
  std::unordered_multimap<size_t, NodeId> seen;
  for (NodeId id : order) {
    const ir::Node& n = r.node(id);
    if (n.dead || !n.bodies.empty() || n.outputs.empty() || ops::HasTrait(n.op, ops::kRandom)) continue;
    const size_t hash = HashOf(n);
    NodeId twin = kNone;
    for (auto [it, end] = seen.equal_range(hash); it != end && twin == kNone; ++it) {
      if (!r.node(it->second).dead && SameNode(n, r.node(it->second))) twin = it->second;
    }
    if (twin == kNone) {
      seen.emplace(hash, id);
      continue;
    }
    for (size_t i = 0; i < r.node(id).outputs.size() && !r.node(id).dead; ++i) {
      const ValueId mine = r.node(id).outputs[i];
      const ValueId theirs = r.node(twin).outputs[i];
      // Two outputs of the graph keep two names; the readers of the second may still read the first.
      if (mine == kNone) continue;
      if (g.IsOutput(mine) && g.IsOutput(theirs)) {
        if (!g.value(mine).consumers.empty()) {
          g.ReplaceNodeUses(mine, theirs);
          r.Changed();
        }
      } else {
        r.Replace(mine, theirs);
      }
    }
  }
  return Status::Ok();
}

}  // namespace tenon::passes
