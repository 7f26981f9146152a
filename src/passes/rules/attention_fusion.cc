// AttentionFusion: softmax(scale * q k^T + mask) v in the spellings of PyTorch (eager, SDPA export, packed projections), TF and
// Paddle becomes FusedAttention.
#include <algorithm>
#include <cmath>
#include <limits>

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
  if (fused && n.attrs.Int("transB", 0) != 0) {
    m->k = kt;
    return true;
  }
  const NodeId t = r.Producer(kt, "Transpose");
  if (t == kNone) return false;
  if (rank == 3) {
    if (!HasPerm(r, t, {0, 2, 1})) return false;
    m->k = r.In(t, 0);
  } else if (HasPerm(r, t, {0, 1, 3, 2})) {
    m->k = r.In(t, 0);
  } else if (HasPerm(r, t, {0, 2, 3, 1})) {
    m->k = AddTranspose(r, r.In(t, 0), {0, 2, 1, 3}, t);  // from [b, s, h, d]; falls away again under Heads
  }
  if (m->k == kNone) return false;
  // A scale that exporters put on k itself, before its transpose.
  m->k = PeelScale(r, m->k, &m->scale);
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

// [b, h, s, d] made from [b, s, h*d] by Reshape and Transpose: that value. kNone otherwise.
ValueId Merged(const Rewriter& r, ValueId x, int64_t heads) {
  const NodeId t = r.Producer(x, "Transpose");
  if (t == kNone || !HasPerm(r, t, {0, 2, 1, 3})) return kNone;
  const NodeId reshape = r.Producer(r.In(t, 0));
  if (reshape == kNone || (r.node(reshape).op != "Reshape" && r.node(reshape).op != "Unsqueeze")) return kNone;
  const ValueId source = r.In(reshape, 0);
  const SymShape& from = r.ShapeOf(source);
  const SymShape& to = r.ShapeOf(r.In(t, 0));
  if (r.RankOf(source) != 3 || !to[2].Is(heads)) return kNone;
  return from[0] == to[0] && from[1] == to[1] && from[2] == to[2] * to[3] ? source : kNone;
}

// [.., h*d] whose parts of [b, s, 3, h, d] -> (2, 0, 3, 1, 4) are q, k and v.
struct Part {
  ValueId packed = kNone;
  int64_t index = -1;
};
Part PackedPart(const Rewriter& r, ValueId x) {
  NodeId p = r.Producer(x);
  Part part;
  if (p == kNone) return part;
  if (r.node(p).op == "Gather" && r.node(p).attrs.Int("axis", 0) == 0) {
    const auto index = r.ConstInts(r.In(p, 1));
    if (!index || index->size() != 1 || r.RankOf(r.In(p, 1)) != 0) return part;
    part.index = (*index)[0] < 0 ? (*index)[0] + 3 : (*index)[0];
  } else {
    // Slice [i:i+1] and a view that drops the axis; Split into three likewise.
    if (r.node(p).op == "Squeeze" || r.node(p).op == "Reshape") p = r.Producer(r.In(p, 0));
    if (p == kNone || r.node(p).op != "Slice") return part;
    const auto start = r.ConstInts(r.In(p, 1));
    const auto axes = r.ConstInts(r.In(p, 3));
    if (!start || start->size() != 1 || (axes && ((*axes)[0] != 0)) || r.ExtentOf(r.Out(p), 0) != 1) return part;
    part.index = (*start)[0] < 0 ? (*start)[0] + 3 : (*start)[0];
  }
  const NodeId t = r.Producer(r.In(p, 0), "Transpose");
  if (t == kNone || !HasPerm(r, t, {2, 0, 3, 1, 4}) || r.ExtentOf(r.In(t, 0), 2) != 3) return part;
  const NodeId reshape = r.Producer(r.In(t, 0), "Reshape");
  if (reshape == kNone || r.RankOf(r.In(reshape, 0)) != 3) return part;
  const SymShape& from = r.ShapeOf(r.In(reshape, 0));
  const SymShape& to = r.ShapeOf(r.In(t, 0));
  if (from[0] == to[0] && from[1] == to[1] && from[2] == to[2] * to[3] * to[4]) part.packed = r.In(reshape, 0);
  return part;
}

// The attention's result after Transpose and Reshape to [b, s, h*d], when that is all it is used for.
ValueId MergedResult(const Rewriter& r, ValueId y) {
  const NodeId t = r.SoleReader(y);
  if (t == kNone || r.node(t).op != "Transpose" || !HasPerm(r, t, {0, 2, 1, 3})) return kNone;
  const NodeId reshape = r.SoleReader(r.Out(t));
  if (reshape == kNone || (r.node(reshape).op != "Reshape" && r.node(reshape).op != "Flatten")) return kNone;
  const SymShape& from = r.ShapeOf(r.Out(t));
  const SymShape& to = r.ShapeOf(r.Out(reshape));
  if (r.RankOf(r.Out(reshape)) != 3) return kNone;
  return to[0] == from[0] && to[1] == from[1] && to[2] == from[2] * from[3] ? r.Out(reshape) : kNone;
}

// Masks broadcast to [b, h, q, k]; one of a rank-3 product lacks the axis of heads.
ValueId MaskForHeads(Rewriter& r, ValueId mask, NodeId origin) {
  if (mask == kNone || r.RankOf(mask) < 3) return mask;
  return r.Add("Unsqueeze", {mask, r.Ints("axes", {1})}, {}, origin);
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
  Attrs attrs;
  attrs.Set("num_heads", heads);
  attrs.Set("scale", static_cast<float>(m.scale));
  std::vector<ValueId> inputs;
  if (rank == 4) {
    const Part pq = PackedPart(r, m.q), pk = PackedPart(r, m.k), pv = PackedPart(r, m.v);
    if (pq.packed != kNone && pq.packed == pk.packed && pq.packed == pv.packed && pq.index == 0 && pk.index == 1 &&
        pv.index == 2) {
      inputs = {pq.packed, kNone, kNone};
    } else {
      for (ValueId x : {m.q, m.k, m.v}) {
        const ValueId merged = Merged(r, x, heads);
        inputs.push_back(merged != kNone ? merged : x);
      }
    }
    const ValueId merged = MergedResult(r, m.y);
    if (merged != kNone) m.y = merged;
    attrs.Set("out_rank", int64_t{merged != kNone ? 3 : 4});
  } else {
    inputs = {m.q, m.k, m.v};
    m.mask = MaskForHeads(r, m.mask, id);
    attrs.Set("out_rank", int64_t{3});
  }
  if (m.mask != kNone) inputs.push_back(m.mask);
  while (inputs.back() == kNone) inputs.pop_back();
  if (!r.KernelExists("FusedAttention", attrs, inputs)) return false;
  const ValueId y = r.Add("FusedAttention", inputs, attrs, id);
  if (y == kNone) return false;
  r.Replace(m.y, y);
  return true;
}

}  // namespace

Status AttentionFusion(Rewriter& r) {
  return ApplyRules(r, {"MatMul", "FusedMatMul"}, {Fuse});
}

}  // namespace tenon::passes
