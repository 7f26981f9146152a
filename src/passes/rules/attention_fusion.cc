// AttentionFusion: softmax(scale * q k^T + mask) v in the spellings of PyTorch (eager, SDPA export, packed projections), TF and
// Paddle becomes FusedAttention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/axis_map.h"
#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/reshape_target.h"

namespace tenon::passes {
namespace {

bool HasPerm(const Rewriter& r, NodeId id, std::initializer_list<int64_t> perm) {
  const auto p = PermutationOf(r, id);
  return p && std::equal(p->begin(), p->end(), perm.begin(), perm.end());
}

// What the match has found so far.
struct Match {
  ValueId q = kNone, k = kNone, v = kNone;  // rank 4 [b, h, s, d], or rank 3 [b, s, d] with one head
  bool k_transposed = false;                // k is [b, h, d, s] or [b, d, s]
  ValueId mask = kNone;
  double scale = 1;
  ValueId y = kNone;                        // what the operator replaces
};

// Takes Mul and Div by a scalar constant off `v`, into `scale`.
ValueId PeelScale(const Rewriter& r, ValueId v, double* scale) {
  while (true) {
    const NodeId p = r.SoleProducer(v);
    if (p == kNone || (r.node(p).op != "Mul" && r.node(p).op != "Div")) return v;
    const auto split = r.SplitConst(p);
    if (!split) return v;
    const auto s = r.Scalar(split->second);
    if (!s || *s == 0 || !std::isfinite(*s)) return v;
    if (r.node(p).op == "Div") {
      if (r.In(p, 1) != split->second) return v;
      *scale /= *s;
    } else {
      *scale *= *s;
    }
    v = split->first;
  }
}

// q k^T under scales: a MatMul whose second operand is a transposed k.
bool MatchScores(Rewriter& r, ValueId s, Match* m) {
  s = PeelScale(r, s, &m->scale);
  const NodeId product = r.SoleProducer(s);
  if (product == kNone) return false;
  const ir::Node& n = r.node(product);
  const bool fused = n.op == "FusedMatMul";
  if (n.op != "MatMul" && !fused) return false;
  if (fused &&
      (r.In(product, 2) != kNone || r.In(product, 3) != kNone || n.attrs.Has("activation") || n.attrs.Int("transA", 0) != 0))
    return false;
  m->scale *= n.attrs.Float("alpha", 1);
  m->q = PeelScale(r, n.inputs[0], &m->scale);
  const ValueId kt = PeelScale(r, n.inputs[1], &m->scale);
  const int rank = r.RankOf(kt);
  if (rank != r.RankOf(m->q) || (rank != 3 && rank != 4)) return false;
  m->k = kt;
  m->k_transposed = !fused || n.attrs.Int("transB", 0) == 0;
  return true;
}

// Where(visible, scores, fill) and Where(hidden, fill, scores). The fill is minus infinity or so low that exp gives 0.
bool MatchWhere(Rewriter& r, ValueId s, Match* m, NodeId origin) {
  const NodeId w = r.SoleProducer(s, "Where");
  if (w == kNone) return false;
  for (size_t side : {size_t{1}, size_t{2}}) {
    const auto fill = r.Scalar(r.In(w, 3 - side));
    if (!fill || *fill > -1e4 || r.value(r.In(w, 3 - side)).constant.shape().rank() > r.RankOf(s)) continue;
    Match inner = *m;
    if (!MatchScores(r, r.In(w, side), &inner)) continue;
    const ValueId condition = r.In(w, 0);
    const bool keeps = side == 1;
    if (std::isinf(*fill)) {
      inner.mask = keeps ? condition : r.Add("Not", {condition}, {}, origin);
    } else {
      // Rows without a visible key must come out as the average that equal low scores give: keep the value.
      const ValueId zero = r.ScalarLike(r.In(w, 3 - side), 0);
      const ValueId low = r.In(w, 3 - side);
      inner.mask = r.Add("Where", {condition, keeps ? zero : low, keeps ? low : zero}, {}, origin);
    }
    if (inner.mask == kNone) continue;
    *m = inner;
    return true;
  }
  return false;
}

bool MatchLogits(Rewriter& r, ValueId s, Match* m, NodeId origin) {
  Match plain = *m;
  if (MatchScores(r, s, &plain)) {
    *m = plain;
    return true;
  }
  if (MatchWhere(r, s, m, origin)) return true;
  const NodeId add = r.SoleProducer(s, "Add");
  if (add == kNone) return false;
  for (size_t side : {size_t{0}, size_t{1}}) {
    Match inner = *m;
    if (!MatchScores(r, r.In(add, side), &inner)) continue;
    inner.mask = r.In(add, 1 - side);
    if (r.RankOf(inner.mask) < 0 || r.RankOf(inner.mask) > r.RankOf(s)) return false;
    *m = inner;
    return true;
  }
  return false;
}

// Softmax over the last axis, also under the guard Where(IsNaN(p), 0, p) of the SDPA export.
NodeId SoftmaxOf(Rewriter& r, ValueId p) {
  if (const NodeId w = r.SoleProducer(p, "Where"); w != kNone && r.IsScalar(r.In(w, 1), 0)) {
    const NodeId nan = r.Producer(r.In(w, 0), "IsNaN");
    const NodeId softmax = r.Producer(r.In(w, 2), "Softmax");
    if (nan == kNone || softmax == kNone || r.In(nan, 0) != r.In(w, 2) || r.value(r.In(w, 2)).consumers.size() != 2) return kNone;
    return r.graph().IsOutput(r.In(w, 2)) ? kNone : softmax;
  }
  return r.SoleProducer(p, "Softmax");
}

// Whether the axis is exactly the source axis `axis`, or a part of it when `part` is set. An extent of 1 leaves no atom.
bool IsAxis(const std::vector<Atom>& atoms, const SymShape& source, int axis, bool part = false) {
  if (atoms.empty()) return !part && source[axis].Is(1);
  return atoms.size() == 1 && atoms[0].key[0] == axis && (part || atoms[0].key.size() == 1);
}

// [b, s, h*d] or packed [b, s, 3*h*d] from which [b, h, s, d] (or [b, h, d, s]) is made by moving elements only.
struct Heads {
  ValueId source = kNone;
  int64_t part = -1;  // 0, 1, 2 of a packed source
};
Heads HeadsOf(const Rewriter& r, ValueId x, bool transposed) {
  for (const AxisMap& map : TraceAxes(r, x)) {
    const SymShape& shape = r.ShapeOf(map.source);
    if (shape.rank() != 3 || map.axes.size() != 4 || map.chosen.size() > 1) continue;
    const auto& s = map.axes[transposed ? 3 : 2];
    const auto& h = map.axes[1];
    const auto& d = map.axes[transposed ? 2 : 3];
    if (!IsAxis(map.axes[0], shape, 0) || !IsAxis(s, shape, 1) || !IsAxis(h, shape, 2, true) || !IsAxis(d, shape, 2, true)) {
      continue;
    }
    if (!(h[0].key < d[0].key)) continue;
    const Dim width = h[0].extent * d[0].extent;
    if (map.chosen.empty() && shape[2] == width) return {map.source, -1};
    if (map.chosen.empty()) continue;
    const auto& [part, index] = map.chosen[0];
    if (part.key[0] == 2 && part.key < h[0].key && part.extent.Is(3) && shape[2] == Dim(3) * width) return {map.source, index};
  }
  return {};
}

// How the result is used: merged to [b, s, h*d] (PyTorch, BERT), or with the sequence first to [s, b, h*d] or [s*b, h*d]
// (nn.MultiheadAttention).
struct Merged {
  ValueId replaces = kNone;
  bool sequence_first = false;
};
Merged MergedResult(const Rewriter& r, ValueId y) {
  const NodeId t = r.SoleReader(y);
  if (t == kNone || r.node(t).op != "Transpose") return {};
  const bool sequence_first = HasPerm(r, t, {2, 0, 1, 3});
  if (!sequence_first && !HasPerm(r, t, {0, 2, 1, 3})) return {};
  const NodeId reshape = r.SoleReader(r.Out(t));
  if (reshape == kNone || (r.node(reshape).op != "Reshape" && r.node(reshape).op != "Flatten")) return {};
  const SymShape& from = r.ShapeOf(r.Out(t));
  const SymShape& to = r.ShapeOf(r.Out(reshape));
  const int rank = r.RankOf(r.Out(reshape));
  if (rank < 2 || !(to[rank - 1] == from[2] * from[3])) return {};
  if (sequence_first) return {r.Out(reshape), true};
  return rank == 3 && to[0] == from[0] && to[1] == from[1] ? Merged{r.Out(reshape), false} : Merged{};
}

// Masks broadcast to [b, h, q, k]; one of a rank-3 product lacks the axis of heads.
ValueId MaskForHeads(Rewriter& r, ValueId mask, NodeId origin) {
  if (mask == kNone || r.RankOf(mask) < 3) return mask;
  return r.Add("Unsqueeze", {mask, r.Ints("axes", {1})}, {}, origin);
}

// k as [.., s, d].
ValueId Untransposed(Rewriter& r, const Match& m, int rank, NodeId origin) {
  if (!m.k_transposed) return m.k;
  const NodeId t = r.Producer(m.k, "Transpose");
  if (t != kNone && (rank == 3 ? HasPerm(r, t, {0, 2, 1}) : HasPerm(r, t, {0, 1, 3, 2}))) return r.In(t, 0);
  return AddTranspose(r, m.k, rank == 3 ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{0, 1, 3, 2}, origin);
}

bool Emit(Rewriter& r, NodeId id, const Match& m, int rank, int64_t heads) {
  Attrs attrs;
  attrs.Set("num_heads", heads);
  attrs.Set("scale", static_cast<float>(m.scale));
  ValueId mask = m.mask;
  std::vector<ValueId> inputs;
  Merged result;
  if (rank == 4) {
    const Heads q = HeadsOf(r, m.q, false), k = HeadsOf(r, m.k, m.k_transposed), v = HeadsOf(r, m.v, false);
    const bool packed = q.source != kNone && q.source == k.source && q.source == v.source;
    if (packed && q.part == 0 && k.part == 1 && v.part == 2) {
      inputs = {q.source, kNone, kNone};
    } else {
      inputs.push_back(q.part < 0 && q.source != kNone ? q.source : m.q);
      inputs.push_back(k.part < 0 && k.source != kNone ? k.source : Untransposed(r, m, rank, id));
      inputs.push_back(v.part < 0 && v.source != kNone ? v.source : m.v);
    }
    result = MergedResult(r, m.y);
    attrs.Set("out_rank", int64_t{result.replaces != kNone ? 3 : 4});
  } else {
    inputs = {m.q, Untransposed(r, m, rank, id), m.v};
    mask = MaskForHeads(r, mask, id);
    attrs.Set("out_rank", int64_t{3});
  }
  if (mask != kNone) inputs.push_back(mask);
  while (inputs.back() == kNone) inputs.pop_back();
  if (!r.KernelExists("FusedAttention", attrs, inputs)) return false;
  ValueId y = r.Add("FusedAttention", inputs, attrs, id);
  if (y != kNone && result.sequence_first) y = AddTranspose(r, y, {1, 0, 2}, id);
  if (y != kNone && result.sequence_first) y = ReshapeTo(r, y, r.ShapeOf(result.replaces), id);
  if (y == kNone) return false;
  r.Replace(result.replaces != kNone ? result.replaces : m.y, y);
  return true;
}

bool Fuse(Rewriter& r, NodeId id) {
  if (r.node(id).op == "FusedMatMul" && (r.node(id).attrs.size() != 0 || r.node(id).inputs.size() != 2)) return false;
  const NodeId softmax = SoftmaxOf(r, r.In(id, 0));
  const int rank = r.RankOf(r.Out(id));
  if (softmax == kNone || (rank != 3 && rank != 4) || r.RankOf(r.In(id, 1)) != rank) return false;
  const int64_t axis = r.node(softmax).attrs.Int("axis", -1);
  if (axis != -1 && axis != rank - 1) return false;
  Match m;
  m.v = r.In(id, 1);
  m.y = r.Out(id);
  if (!MatchLogits(r, r.In(softmax, 0), &m, id) || r.RankOf(m.q) != rank || r.RankOf(m.k) != rank) return false;
  if (r.TypeOf(m.q) != r.TypeOf(m.k) || r.TypeOf(m.q) != r.TypeOf(m.v)) return false;
  // Equal numbers of heads on all sides: what MatMul broadcasts, attention does not.
  const int64_t heads = rank == 3 ? 1 : r.ExtentOf(m.q, 1);
  if (heads < 1 || (rank == 4 && (r.ExtentOf(m.k, 1) != heads || r.ExtentOf(m.v, 1) != heads))) return false;
  if (!(r.ShapeOf(m.q)[0] == r.ShapeOf(m.k)[0]) || !(r.ShapeOf(m.q)[0] == r.ShapeOf(m.v)[0])) return false;
  return Emit(r, id, m, rank, heads);
}

}  // namespace

Status AttentionFusion(Rewriter& r) {
  return ApplyRules(r, {"MatMul", "FusedMatMul"}, {Fuse});
}

}  // namespace tenon::passes
