// MatMul and Gemm as FusedMatMul: act(alpha*op(A)*op(B) + bias + residual).
#include <algorithm>
#include <cmath>

#include "passes/activation.h"
#include "passes/affine.h"
#include "passes/pass.h"

namespace tenon::passes {
namespace {

bool IsMatMul(std::string_view op) {
  return op == "MatMul" || op == "FusedMatMul";
}

// MatMul on vectors drops axes; FusedMatMul has none of that.
bool RanksAllow(const Rewriter& r, NodeId id) {
  return r.RankOf(r.In(id, 0)) >= 2 && r.RankOf(r.In(id, 1)) >= 2;
}

// The producer of `y` when it is a matrix product that only `y`'s one reader sees.
NodeId MatMulOf(Rewriter& r, ValueId y) {
  const NodeId m = r.Producer(y);
  if (m == kNone || !IsMatMul(r.node(m).op) || !RanksAllow(r, m)) return kNone;
  if (r.OneReader(y)) return m;
  r.Refuse("the product is used elsewhere");
  return kNone;
}

ValueId Fused(Rewriter& r, std::vector<ValueId> inputs, const Attrs& attrs, NodeId origin) {
  while (!inputs.empty() && inputs.back() == kNone) inputs.pop_back();
  if (!r.KernelExists("FusedMatMul", attrs, inputs)) return kNone;
  return r.Add("FusedMatMul", std::move(inputs), attrs, origin);
}

std::vector<ValueId> FourInputs(const Rewriter& r, NodeId id) {
  std::vector<ValueId> inputs = r.node(id).inputs;
  inputs.resize(4, kNone);
  return inputs;
}

bool ReplaceBy(Rewriter& r, NodeId id, ValueId by) {
  if (by == kNone) return false;
  r.Replace(r.Out(id), by);
  return true;
}

// A constant that varies along the last axis only, as [n].
ValueId AsVector(Rewriter& r, ValueId v, int rank, int64_t n, double factor) {
  const auto values = ChannelConstant(r, v, rank, -1, n);
  if (!values || r.TypeOf(v) != DType::kF32) return kNone;
  if (r.value(v).constant.shape().rank() == 1 && r.value(v).constant.shape()[0] == n && factor == 1) return v;
  std::vector<float> scaled;
  for (double x : *values) scaled.push_back(static_cast<float>(x * factor));
  return r.Constant(r.value(v).name, Tensor::FromVector<float>({n}, scaled));
}

bool FuseGemm(Rewriter& r, NodeId id) {
  const ir::Node& n = r.node(id);
  if (n.inputs.size() < 2 || !RanksAllow(r, id)) return false;
  Attrs attrs;
  for (const char* name : {"transA", "transB"}) {
    if (n.attrs.Int(name, 0) != 0) attrs.Set(name, int64_t{1});
  }
  if (n.attrs.Float("alpha", 1) != 1) attrs.Set("alpha", n.attrs.Float("alpha", 1));
  std::vector<ValueId> inputs{n.inputs[0], n.inputs[1], kNone, kNone};
  const float beta = n.attrs.Float("beta", 1);
  const ValueId c = r.In(id, 2);
  if (c != kNone && beta != 0) {
    const int64_t width = r.ExtentOf(r.Out(id), -1);
    if (r.IsConst(c) && width > 0) {
      inputs[2] = AsVector(r, c, 2, width, beta);
    } else if (beta == 1 && r.RankOf(c) == 1 && r.ExtentOf(c, 0) == width && width > 0) {
      inputs[2] = c;
    } else if (beta == 1 && r.RankOf(c) == 2 && r.ShapeOf(c) == r.ShapeOf(r.Out(id))) {
      inputs[3] = c;
    }
    if (inputs[2] == kNone && inputs[3] == kNone) return false;
  }
  return ReplaceBy(r, id, Fused(r, inputs, attrs, id));
}

// x*W + b. Also takes a second constant into an existing constant bias.
bool FuseBias(Rewriter& r, NodeId id) {
  if (r.node(id).op != "Add") return false;
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ValueId y = r.In(id, side);
    const ValueId b = r.In(id, 1 - side);
    if (y == kNone || b == kNone || y == b || r.RankOf(y) < 2) continue;
    const int64_t width = r.ExtentOf(y, -1);
    const NodeId m = r.Producer(y);
    if (width <= 0 || m == kNone || !IsMatMul(r.node(m).op)) continue;
    if (HasActivation(r.node(m).attrs) || r.In(m, 2) != kNone || r.In(m, 3) != kNone) continue;
    const bool vector = r.RankOf(b) == 1 && r.ExtentOf(b, 0) == width && r.TypeOf(b) == r.TypeOf(y);
    if (!r.IsConst(b) && !vector) continue;
    if (MatMulOf(r, y) == kNone) continue;
    const ValueId bias = vector ? b : AsVector(r, b, r.RankOf(y), width, 1);
    if (bias == kNone) continue;
    std::vector<ValueId> inputs = FourInputs(r, m);
    inputs[2] = bias;
    if (ReplaceBy(r, id, Fused(r, inputs, r.node(m).attrs, m))) return true;
  }
  return false;
}

bool FuseResidual(Rewriter& r, NodeId id) {
  if (r.node(id).op != "Add") return false;
  for (size_t side : {size_t{1}, size_t{0}}) {
    const ValueId y = r.In(id, side);
    const ValueId residual = r.In(id, 1 - side);
    if (y == kNone || residual == kNone || y == residual || r.IsConst(residual)) continue;
    const NodeId m = r.Producer(y);
    if (m == kNone || !IsMatMul(r.node(m).op) || HasActivation(r.node(m).attrs) || r.In(m, 3) != kNone) continue;
    if (!r.ShapeOf(y).has_rank() || !(r.ShapeOf(y) == r.ShapeOf(residual)) || r.TypeOf(y) != r.TypeOf(residual)) continue;
    if (MatMulOf(r, y) == kNone) continue;
    std::vector<ValueId> inputs = FourInputs(r, m);
    inputs[3] = residual;
    if (ReplaceBy(r, id, Fused(r, inputs, r.node(m).attrs, m))) return true;
  }
  return false;
}

bool FuseActivation(Rewriter& r, NodeId id) {
  const bool binary = r.node(id).op == "Mul" || r.node(id).op == "Add";
  const auto split = binary ? r.SplitConst(id) : std::nullopt;
  if (binary ? !split : !ActivationOf(r, id)) return false;
  const ValueId y = binary ? split->first : r.In(id, 0);
  if (y == kNone) return false;
  const NodeId m = MatMulOf(r, y);
  if (m == kNone || (binary && r.node(m).op != "FusedMatMul")) return false;
  if (r.node(m).op == "FusedMatMul") return FuseEpilogue(r, m, id);
  if (!r.KernelExists("FusedMatMul", r.node(m).attrs, r.node(m).inputs)) return false;
  r.patch().SetOp(m, "FusedMatMul");
  return FuseEpilogue(r, m, id);
}

// s*(A*B): alpha. With a bias already there, constant weights are scaled instead (ScaleWeights).
bool FuseScale(Rewriter& r, NodeId id) {
  const auto split = r.SplitConst(id);
  if (!split || (r.node(id).op == "Div" && r.In(id, 1) != split->second)) return false;
  const auto s = r.Scalar(split->second);
  if (!s || !std::isfinite(*s) || *s == 0 || r.value(split->second).shape.rank() > r.RankOf(split->first)) return false;
  const NodeId m = MatMulOf(r, split->first);
  if (m == kNone || HasActivation(r.node(m).attrs) || r.In(m, 2) != kNone || r.In(m, 3) != kNone) return false;
  const double alpha = r.node(m).attrs.Float("alpha", 1) * (r.node(id).op == "Div" ? 1 / *s : *s);
  Attrs attrs = r.node(m).attrs;
  attrs.Set("alpha", static_cast<float>(alpha));
  return ReplaceBy(r, id, Fused(r, FourInputs(r, m), attrs, m));
}

// (x*W + b)*diag(s) + t = x*(W*diag(s)) + (b*s + t)
bool ScaleWeights(Rewriter& r, NodeId id) {
  ValueId y = r.In(id, 0);
  if (r.node(id).op != "BatchNormalization") {
    const auto split = r.SplitConst(id);
    if (!split) return false;
    y = split->first;
  }
  const NodeId m = r.Producer(y);
  if (m == kNone || !IsMatMul(r.node(m).op) || !RanksAllow(r, m) || HasActivation(r.node(m).attrs)) return false;
  const float* w = r.ConstFloats(r.In(m, 1));
  const ValueId b = r.In(m, 2);
  if (w == nullptr || r.In(m, 3) != kNone || (b != kNone && r.ConstFloats(b) == nullptr)) return false;
  const Tensor weights = r.value(r.In(m, 1)).constant;
  const int64_t width = r.ExtentOf(y, -1);
  if (weights.shape().rank() != 2 || width <= 0) return false;
  const auto a = AffineOf(r, id, r.RankOf(y), -1, width);
  if (!a || a->x != y || MatMulOf(r, y) == kNone) return false;
  const bool rescale = std::any_of(a->scale.begin(), a->scale.end(), [](double v) { return v != 1; });
  auto scaled = rescale ? Tensor::Allocate(DType::kF32, weights.shape()) : Result<Tensor>(weights);
  if (!scaled.ok()) return false;
  const bool transposed = r.node(m).attrs.Int("transB", 0) != 0;
  const int64_t columns = weights.shape()[1];
  for (int64_t i = 0; rescale && i < weights.shape().num_elements(); ++i) {
    const int64_t channel = transposed ? i / columns : i % columns;
    scaled->MutableData<float>()[i] = static_cast<float>(w[i] * a->scale[static_cast<size_t>(channel)]);
  }
  std::vector<float> bias;
  bool any = b != kNone;
  for (int64_t i = 0; i < width; ++i) {
    const double old = b == kNone ? 0 : r.ConstFloats(b)[i];
    bias.push_back(static_cast<float>(old * a->scale[static_cast<size_t>(i)] + a->shift[static_cast<size_t>(i)]));
    any = any || bias.back() != 0;
  }
  std::vector<ValueId> inputs = FourInputs(r, m);
  if (rescale) inputs[1] = r.Constant(r.value(inputs[1]).name, *scaled);
  inputs[2] = any ? r.Constant("bias", Tensor::FromVector<float>({width}, bias)) : kNone;
  return ReplaceBy(r, id, Fused(r, inputs, r.node(m).attrs, m));
}

// A * transpose(B), both of the last two axes only.
bool FuseTranspose(Rewriter& r, NodeId id) {
  if (!RanksAllow(r, id)) return false;
  for (size_t side : {size_t{0}, size_t{1}}) {
    const NodeId t = r.Producer(r.In(id, side), "Transpose");
    if (t == kNone || r.IsConst(r.In(t, 0))) continue;
    auto perm = r.node(t).attrs.Ints("perm");
    const int rank = r.RankOf(r.In(t, 0));
    if (perm.empty()) {
      for (int i = rank; i-- > 0;) perm.push_back(i);
    }
    bool swaps = static_cast<int>(perm.size()) == rank && rank >= 2;
    for (int i = 0; swaps && i < rank; ++i) {
      swaps = perm[static_cast<size_t>(i)] == (i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i);
    }
    if (!swaps) continue;
    Attrs attrs = r.node(id).attrs;
    const char* name = side == 0 ? "transA" : "transB";
    const bool was = attrs.Int(name, 0) != 0;
    attrs.Erase(name);
    if (!was) attrs.Set(name, int64_t{1});
    std::vector<ValueId> inputs = FourInputs(r, id);
    inputs[side] = r.In(t, 0);
    if (ReplaceBy(r, id, Fused(r, inputs, attrs, id))) return true;
  }
  return false;
}

}  // namespace

Status GemmToFusedMatMul(Rewriter& r) {
  return ApplyRules(r, {"Gemm"}, {FuseGemm});
}
Status MatMulBiasFusion(Rewriter& r) {
  return ApplyRules(r, {"Add"}, {FuseBias});
}
Status MatMulTransposeFusion(Rewriter& r) {
  return ApplyRules(r, {"MatMul", "FusedMatMul"}, {FuseTranspose});
}
Status MatMulScaleFusion(Rewriter& r) {
  return ApplyRules(r, {"Mul", "Div", "BatchNormalization"}, {ScaleWeights, FuseScale});
}
Status MatMulAddFusion(Rewriter& r) {
  return ApplyRules(r, {"Add", "Sub", "Mul", "Div", "BatchNormalization"}, {FuseBias, ScaleWeights, FuseResidual});
}
Status MatMulActivationFusion(Rewriter& r) {
  return ApplyRules(
      r, {"Relu", "Sigmoid", "Tanh", "HardSwish", "Silu", "Swish", "LeakyRelu", "HardSigmoid", "Gelu", "Clip", "Mul", "Add"},
      {FuseActivation});
}

}  // namespace tenon::passes
