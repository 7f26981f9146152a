#include "passes/affine.h"

#include <cmath>

namespace tenon::passes {

bool MayBeAffine(std::string_view op) {
  return op == "Mul" || op == "Add" || op == "Sub" || op == "Div" || op == "BatchNormalization";
}

std::optional<std::vector<double>> ChannelConstant(const Rewriter& r, ValueId v, int rank, int axis, int64_t channels) {
  if (!r.IsConst(v) || channels <= 0) return std::nullopt;
  if (axis < 0) axis += rank;
  const Tensor& t = r.value(v).constant;
  if (t.shape().rank() > rank) return std::nullopt;
  const int64_t n = t.shape().num_elements();
  if (n != 1) {
    const int own_axis = axis - (rank - t.shape().rank());
    if (own_axis < 0 || n != channels || t.shape()[own_axis] != channels) return std::nullopt;
  }
  auto values = ToDoubles(t.view());
  if (!values || values->empty()) return std::nullopt;
  if (n == 1) values->resize(static_cast<size_t>(channels), (*values)[0]);
  return values;
}

namespace {

std::optional<Affine> BatchNorm(const Rewriter& r, NodeId id, int axis, int64_t channels) {
  const ir::Node& n = r.node(id);
  if (axis != 1 || n.inputs.size() < 5 || n.attrs.Int("training_mode", 0) != 0) return std::nullopt;
  for (size_t i = 1; i < n.outputs.size(); ++i) {
    if (n.outputs[i] != kNone) return std::nullopt;
  }
  std::vector<std::vector<double>> p;
  for (size_t i = 1; i < 5; ++i) {
    auto values = ChannelConstant(r, n.inputs[i], 1, 0, channels);
    if (!values) return std::nullopt;
    p.push_back(std::move(*values));
  }
  Affine a;
  a.x = n.inputs[0];
  const double epsilon = n.attrs.Float("epsilon", 1e-5f);
  for (size_t c = 0; c < p[0].size(); ++c) {
    const double s = p[0][c] / std::sqrt(p[3][c] + epsilon);
    if (!std::isfinite(s)) return std::nullopt;
    a.scale.push_back(s);
    a.shift.push_back(p[1][c] - p[2][c] * s);
  }
  return a;
}

}  // namespace

std::optional<Affine> AffineOf(const Rewriter& r, NodeId id, int rank, int axis, int64_t channels) {
  if (axis < 0) axis += rank;
  const std::string& op = r.node(id).op;
  if (op == "BatchNormalization") return BatchNorm(r, id, axis, channels);
  if (!MayBeAffine(op)) return std::nullopt;
  const auto split = r.SplitConst(id);
  if (!split) return std::nullopt;
  const auto& [x, constant] = *split;
  const auto c = ChannelConstant(r, constant, rank, axis, channels);
  if (!c) return std::nullopt;
  // A constant of extent `channels` must not widen an extent of 1 of the variable.
  if (r.RankOf(x) != rank || r.ExtentOf(x, axis) != channels) return std::nullopt;
  const bool constant_first = r.In(id, 0) == constant;
  Affine a;
  a.x = x;
  for (double v : *c) {
    if (op == "Mul") {
      a.scale.push_back(v);
      a.shift.push_back(0);
    } else if (op == "Add") {
      a.scale.push_back(1);
      a.shift.push_back(v);
    } else if (op == "Sub") {
      a.scale.push_back(constant_first ? -1 : 1);
      a.shift.push_back(constant_first ? v : -v);
    } else {
      if (constant_first || v == 0) return std::nullopt;
      a.scale.push_back(1 / v);
      a.shift.push_back(0);
    }
    if (!std::isfinite(a.scale.back()) || !std::isfinite(a.shift.back())) return std::nullopt;
  }
  return a;
}

}  // namespace tenon::passes
