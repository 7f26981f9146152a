// LayerNormFusion
//   d = x - mean(x);  d / sqrt(mean(d^2) + eps) * gamma + beta   = LayerNormalization(x, gamma, beta)
//   x / sqrt(mean(x^2) + eps) * gamma                            = RMSNormalization(x, gamma)
#include <algorithm>

#include "passes/pass.h"

namespace tenon::passes {
namespace {

// mean over the last axis with the axis kept.
bool IsLastAxisMean(const Rewriter& r, NodeId mean) {
  if (mean == kNone || r.node(mean).attrs.Int("keepdims", 1) != 1) return false;
  const auto axes = r.ConstInts(r.In(mean, 1));
  const int rank = r.RankOf(r.In(mean, 0));
  return axes && axes->size() == 1 && rank > 0 && ((*axes)[0] == -1 || (*axes)[0] == rank - 1);
}

// The value whose square v is.
ValueId SquareRoot(const Rewriter& r, ValueId v) {
  if (const NodeId p = r.Producer(v, "Pow"); p != kNone && r.IsScalar(r.In(p, 1), 2)) return r.In(p, 0);
  if (const NodeId m = r.Producer(v, "Mul"); m != kNone && r.In(m, 0) == r.In(m, 1)) return r.In(m, 0);
  return kNone;
}

struct Denominator {
  ValueId d = kNone;      // what is squared and averaged
  double epsilon = 0;
};

// sqrt(mean(d^2) + eps)
std::optional<Denominator> RootMeanSquare(const Rewriter& r, ValueId v) {
  const NodeId sqrt = r.Producer(v, "Sqrt");
  const NodeId add = sqrt == kNone ? kNone : r.Producer(r.In(sqrt, 0), "Add");
  if (add == kNone) return std::nullopt;
  const auto split = r.SplitConst(add);
  if (!split) return std::nullopt;
  const auto epsilon = r.Scalar(split->second);
  const NodeId mean = r.Producer(split->first, "ReduceMean");
  if (!epsilon || *epsilon < 0 || !IsLastAxisMean(r, mean)) return std::nullopt;
  const ValueId d = SquareRoot(r, r.In(mean, 0));
  if (d == kNone) return std::nullopt;
  return Denominator{d, *epsilon};
}

// d / sqrt(...), d * (1 / sqrt(...)), and the same with the operands swapped.
std::optional<Denominator> Normalised(const Rewriter& r, NodeId id) {
  const std::string& op = r.node(id).op;
  if (op == "Div") {
    const auto rms = RootMeanSquare(r, r.In(id, 1));
    return rms && rms->d == r.In(id, 0) ? rms : std::nullopt;
  }
  if (op != "Mul") return std::nullopt;
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ValueId inverse = r.In(id, side);
    ValueId root = kNone;
    if (const NodeId p = r.Producer(inverse, "Reciprocal"); p != kNone) root = r.In(p, 0);
    if (const NodeId p = r.Producer(inverse, "Div"); p != kNone && r.IsScalar(r.In(p, 0), 1)) root = r.In(p, 1);
    if (root == kNone) continue;
    const auto rms = RootMeanSquare(r, root);
    if (rms && rms->d == r.In(id, 1 - side)) return rms;
  }
  return std::nullopt;
}

// x when d = x - mean(x).
ValueId Centred(const Rewriter& r, ValueId d) {
  const NodeId sub = r.Producer(d, "Sub");
  if (sub == kNone) return kNone;
  const NodeId mean = r.Producer(r.In(sub, 1), "ReduceMean");
  return IsLastAxisMean(r, mean) && r.In(mean, 0) == r.In(sub, 0) ? r.In(sub, 0) : kNone;
}

// The vector of `width` elements that the sole reader of `v` multiplies with or adds; sets `reader`.
ValueId VectorOperand(Rewriter& r, ValueId v, std::string_view op, int64_t width, NodeId* reader) {
  *reader = r.SoleReader(v);
  if (*reader == kNone || r.node(*reader).op != op || r.In(*reader, 0) == r.In(*reader, 1)) return kNone;
  const ValueId other = r.In(*reader, 0) == v ? r.In(*reader, 1) : r.In(*reader, 0);
  return r.RankOf(other) == 1 && r.ExtentOf(other, 0) == width && r.TypeOf(other) == r.TypeOf(v) ? other : kNone;
}

// Everything between x and the result is used there only.
bool InnerIsPrivate(Rewriter& r, NodeId last, ValueId x, ValueId result) {
  std::vector<NodeId> nodes{last};
  for (size_t i = 0; i < nodes.size() && nodes.size() < 16; ++i) {
    for (ValueId v : r.node(nodes[i]).inputs) {
      const NodeId p = v == x ? kNone : r.Producer(v);
      if (p != kNone && std::find(nodes.begin(), nodes.end(), p) == nodes.end()) nodes.push_back(p);
    }
  }
  return std::all_of(nodes.begin(), nodes.end(), [&](NodeId n) {
    const ValueId v = r.Out(n);
    if (v == result) return true;
    const auto& readers = r.value(v).consumers;
    return !r.graph().IsOutput(v) && std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
      return std::find(nodes.begin(), nodes.end(), reader) != nodes.end();
    });
  });
}

bool Fuse(Rewriter& r, NodeId id) {
  const auto norm = Normalised(r, id);
  if (!norm || r.TypeOf(r.Out(id)) != DType::kF32) return false;
  const ValueId centred = Centred(r, norm->d);
  const ValueId x = centred != kNone ? centred : norm->d;
  const int64_t width = r.ExtentOf(x, -1);
  if (width <= 0) return false;
  if (!InnerIsPrivate(r, id, x, r.Out(id))) {
    r.Refuse("a part of the normalisation is used elsewhere");
    return false;
  }
  NodeId scale_node = kNone;
  NodeId shift_node = kNone;
  ValueId result = r.Out(id);
  ValueId gamma = VectorOperand(r, result, "Mul", width, &scale_node);
  if (gamma != kNone) result = r.Out(scale_node);
  ValueId beta = centred == kNone ? kNone : VectorOperand(r, result, "Add", width, &shift_node);
  if (beta != kNone) result = r.Out(shift_node);
  if (gamma == kNone)
    gamma = r.Constant("ones", Tensor::FromVector<float>({width}, std::vector<float>(static_cast<size_t>(width), 1)));
  Attrs attrs;
  attrs.Set("axis", int64_t{-1});
  attrs.Set("epsilon", static_cast<float>(norm->epsilon));
  std::vector<ValueId> inputs{x, gamma};
  if (beta != kNone) inputs.push_back(beta);
  const char* op = centred != kNone ? "LayerNormalization" : "RMSNormalization";
  if (!r.KernelExists(op, attrs, inputs)) return false;
  const ValueId fused = r.Add(op, inputs, attrs, id);
  if (fused == kNone) return false;
  r.Replace(result, fused);
  return true;
}

}  // namespace

Status LayerNormFusion(Rewriter& r) {
  return ApplyRules(r, {"Div", "Mul"}, {Fuse});
}

}  // namespace tenon::passes
