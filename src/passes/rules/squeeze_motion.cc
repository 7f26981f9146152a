// An axis that a two-dimensional convolution had only for form (TensorFlow's convolutions over a line) goes after what the
// convolution can take in, so that this finds it.
//   f(squeeze(x)) = squeeze(f(x))            f elementwise; constants of binary f get the axis too
//   pool(squeeze(x)) = squeeze(pool(x))      over all spatial axes
#include <algorithm>

#include "passes/pass.h"

namespace tenon::passes {
namespace {

// Of a Squeeze with constant axes, ascending and not negative.
std::optional<std::vector<int64_t>> AxesOf(const Rewriter& r, NodeId squeeze) {
  const int rank = r.RankOf(r.In(squeeze, 0));
  const auto given = r.ConstInts(r.In(squeeze, 1));
  if (rank < 0 || !given) return std::nullopt;
  std::vector<int64_t> axes = *given;
  for (int64_t& a : axes) a += a < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  return axes;
}

// A convolution made `v`, elementwise operators that it may take in between.
bool FromConvolution(const Rewriter& r, ValueId v) {
  for (int depth = 0; depth < 8 && v != kNone; ++depth) {
    const NodeId p = r.SoleProducer(v);
    if (p == kNone) return false;
    const std::string& op = r.node(p).op;
    if (op == "Conv" || op == "ConvTranspose") return true;
    if (!ops::HasTrait(op, ops::kElementwise)) return false;
    const auto split = r.node(p).inputs.size() == 2 ? r.SplitConst(p) : std::nullopt;
    v = split ? split->first : r.In(p, 0);
  }
  return false;
}

// The constant `c`, broadcast against a tensor of rank `rank` without `axes`, for the tensor that has them.
ValueId WithAxes(Rewriter& r, ValueId c, int rank, const std::vector<int64_t>& axes) {
  const Tensor& t = r.value(c).constant;
  const int missing = rank - static_cast<int>(axes.size()) - t.shape().rank();
  if (missing < 0) return kNone;
  if (t.shape().num_elements() == 1) return c;
  std::vector<int64_t> extents;
  for (int64_t i = 0, from = 0; i < rank; ++i) {
    if (std::binary_search(axes.begin(), axes.end(), i)) {
      extents.push_back(1);
      continue;
    }
    extents.push_back(from < missing ? 1 : t.shape()[static_cast<int>(from) - missing]);
    ++from;
  }
  return r.Constant(r.value(c).name, t.Reshaped(Shape(extents)));
}

ValueId Moved(Rewriter& r, NodeId id, NodeId squeeze, const std::vector<int64_t>& axes) {
  const ir::Node& n = r.node(id);
  const ValueId x = r.In(squeeze, 0);
  const int rank = r.RankOf(x);
  std::vector<ValueId> inputs = n.inputs;
  if (n.op == "GlobalMaxPool" || n.op == "GlobalAveragePool") {
    if (axes.front() < 2 || rank - static_cast<int>(axes.size()) < 3) return kNone;
  } else if (!ops::HasTrait(n.op, ops::kElementwise)) {
    return kNone;
  }
  for (ValueId& v : inputs) {
    if (v == kNone) continue;
    if (v == r.Out(squeeze))
      v = x;
    else if (!r.IsConst(v) || (v = WithAxes(r, v, rank, axes)) == kNone)
      return kNone;
  }
  return r.Add(n.op, inputs, n.attrs, id);
}

bool Move(Rewriter& r, NodeId id) {
  if (r.node(id).inputs.empty() || r.node(id).outputs.size() != 1) return false;
  const auto split = r.node(id).inputs.size() == 2 ? r.SplitConst(id) : std::nullopt;
  const NodeId squeeze = r.SoleProducer(split ? split->first : r.In(id, 0), "Squeeze");
  if (squeeze == kNone || !FromConvolution(r, r.In(squeeze, 0))) return false;
  const auto axes = AxesOf(r, squeeze);
  if (!axes || axes->empty()) return false;
  const ValueId y = Moved(r, id, squeeze, *axes);
  if (y == kNone) return false;
  const ValueId out = r.Add("Squeeze", {y, r.In(squeeze, 1)}, {}, squeeze);
  if (out == kNone) return false;
  r.Replace(r.Out(id), out);
  return true;
}

}  // namespace

Status SqueezeMotion(Rewriter& r) {
  return ApplyRules(r, {}, {Move});
}

}  // namespace tenon::passes
