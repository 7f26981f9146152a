#include "passes/axis_map.h"

#include <deque>

#include "passes/permutation.h"

namespace tenon::passes {
namespace {

constexpr size_t kMaxChain = 12;

bool IsView(std::string_view op) {
  return op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze";
}

// One index of one axis: Gather by a scalar (the axis goes) or Slice to an extent of 1 (it stays).
struct Selection {
  int axis = 0;
  int64_t index = 0;
  bool drops = false;
};
std::optional<Selection> SelectionOf(const Rewriter& r, NodeId id) {
  const ir::Node& n = r.node(id);
  const int rank = r.RankOf(r.In(id, 0));
  if (rank < 1) return std::nullopt;
  Selection s;
  int64_t axis = 0;
  if (n.op == "Gather") {
    const auto index = r.ConstInts(r.In(id, 1));
    if (!index || index->size() != 1 || r.RankOf(r.In(id, 1)) != 0) return std::nullopt;
    axis = n.attrs.Int("axis", 0);
    s.index = (*index)[0];
    s.drops = true;
  } else if (n.op == "Slice") {
    const auto start = r.ConstInts(r.In(id, 1));
    const auto axes = r.In(id, 3) == kNone ? std::optional(std::vector<int64_t>{0}) : r.ConstInts(r.In(id, 3));
    if (!start || start->size() != 1 || !axes || axes->size() != 1) return std::nullopt;
    axis = (*axes)[0];
    s.index = (*start)[0];
  } else {
    return std::nullopt;
  }
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  s.axis = static_cast<int>(axis);
  const int64_t extent = r.ExtentOf(r.In(id, 0), s.axis);
  if (extent < 1 || (!s.drops && r.ExtentOf(r.Out(id), s.axis) != 1)) return std::nullopt;
  if (s.index < 0) s.index += extent;
  return s.index >= 0 && s.index < extent ? std::optional(s) : std::nullopt;
}

bool IsMovement(const Rewriter& r, NodeId id) {
  const std::string& op = r.node(id).op;
  return op == "Transpose" || IsView(op) || SelectionOf(r, id).has_value();
}

// Regroups the atoms in order to axes of the given extents, splitting atoms where an extent ends inside one.
bool Regroup(const SymShape& to, std::vector<std::vector<Atom>>* axes) {
  std::deque<Atom> atoms;
  for (auto& axis : *axes) atoms.insert(atoms.end(), axis.begin(), axis.end());
  axes->clear();
  for (const Dim& extent : to.dims()) {
    axes->emplace_back();
    Dim need = extent;
    while (!need.Is(1)) {
      if (need.is_unknown() || atoms.empty()) return false;
      Atom atom = atoms.front();
      atoms.pop_front();
      if (const auto rest = Dim::ExactDiv(need, atom.extent)) {
        axes->back().push_back(std::move(atom));
        need = *rest;
      } else if (const auto inner = Dim::ExactDiv(atom.extent, need)) {
        Atom outer{need, atom.key};
        outer.key.push_back(0);
        atom.key.push_back(1);
        atom.extent = *inner;
        axes->back().push_back(std::move(outer));
        atoms.push_front(std::move(atom));
        need = Dim(1);
      } else {
        return false;
      }
    }
  }
  return atoms.empty();
}

bool Step(const Rewriter& r, NodeId id, AxisMap* map) {
  if (const auto selection = SelectionOf(r, id)) {
    auto& axis = map->axes[static_cast<size_t>(selection->axis)];
    if (axis.size() > 1) return false;
    if (axis.size() == 1) map->chosen.emplace_back(axis[0], selection->index);
    axis.clear();
    if (selection->drops) map->axes.erase(map->axes.begin() + selection->axis);
    return true;
  }
  if (r.node(id).op == "Transpose") {
    const auto perm = PermutationOf(r, id);
    if (!perm || perm->size() != map->axes.size()) return false;
    std::vector<std::vector<Atom>> turned;
    for (int64_t axis : *perm) turned.push_back(map->axes[static_cast<size_t>(axis)]);
    map->axes = std::move(turned);
    return true;
  }
  return r.ShapeOf(r.Out(id)).has_rank() && Regroup(r.ShapeOf(r.Out(id)), &map->axes);
}

std::optional<AxisMap> Follow(const Rewriter& r, ValueId source, const std::vector<NodeId>& chain, size_t length) {
  AxisMap map;
  map.source = source;
  const SymShape& shape = r.ShapeOf(source);
  if (!shape.has_rank()) return std::nullopt;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i].is_unknown()) return std::nullopt;
    map.axes.emplace_back();
    if (!shape[i].Is(1)) map.axes.back().push_back({shape[i], {i}});
  }
  for (size_t i = length; i-- > 0;) {
    if (!Step(r, chain[i], &map)) return std::nullopt;
  }
  return map;
}

}  // namespace

std::vector<AxisMap> TraceAxes(const Rewriter& r, ValueId v) {
  std::vector<NodeId> chain;  // from v back
  for (NodeId p = r.Producer(v); p != kNone && chain.size() < kMaxChain && IsMovement(r, p); p = r.Producer(r.In(p, 0))) {
    chain.push_back(p);
  }
  std::vector<AxisMap> maps;
  for (size_t length = chain.size() + 1; length-- > 0;) {
    auto map = Follow(r, length == 0 ? v : r.In(chain[length - 1], 0), chain, length);
    if (map) maps.push_back(std::move(*map));
  }
  return maps;
}

}  // namespace tenon::passes
