// QuantizedFusion: products between DequantizeLinear and QuantizeLinear become integer ones with everything around them.
//
//   Q(act(conv(DQ(x), DQ(w)) + b)) = QuantizedConv;  Q(act(DQ(QuantizedConv) + DQ(r))) = QuantizedConv through a grid, with a
//   residual
//
// Each step keeps the value: what a quantiser between two fused operators rounds, the kernel rounds too.
#include <cmath>

#include "passes/activation.h"
#include "passes/pass.h"
#include "passes/quantized.h"

namespace tenon::passes {
namespace {

constexpr size_t kBias = 3, kResidual = 4, kXScale = 6;

bool IsQuantizedOp(std::string_view op) {
  return op == "QuantizedConv" || op == "QuantizedMatMul";
}

bool IsByte(DType t) {
  return t == DType::kU8 || t == DType::kI8;
}

bool GivesFloat(const Rewriter& r, NodeId id) {
  return r.TypeOf(r.Out(id)) == DType::kF32;
}

// Weights of a product: constant bytes with one scale, or one for each output channel on `axis`.
struct Weights {
  ValueId bytes, scale, zero;
};

std::optional<Weights> WeightsOf(Rewriter& r, ValueId v, int axis) {
  const NodeId id = r.Producer(v, "DequantizeLinear");
  if (id == kNone || r.node(id).attrs.Int("block_size", 0) != 0 || r.TypeOf(v) != DType::kF32) return std::nullopt;
  Weights w{r.In(id, 0), r.In(id, 1), r.In(id, 2)};
  if (!r.IsConst(w.bytes) || !r.IsConst(w.scale) || (w.zero != kNone && !r.IsConst(w.zero)) || !IsByte(r.TypeOf(w.bytes)))
    return std::nullopt;
  const Tensor& scale = r.value(w.scale).constant;
  const int rank = r.RankOf(w.bytes);
  const int64_t one = scale.shape().num_elements();
  int64_t given = r.node(id).attrs.Int("axis", 1);
  if (given < 0) given += rank;
  if (one != 1 && (given != axis || r.ExtentOf(w.bytes, axis) != one)) return std::nullopt;
  w.scale = r.Constant(r.value(w.scale).name, scale.Reshaped(Shape{one}));
  if (w.zero == kNone) return w;
  const Tensor& zero = r.value(w.zero).constant;
  if (zero.shape().num_elements() != one) return std::nullopt;
  const auto values = ToInt64s(zero.view());
  const bool none = values && std::all_of(values->begin(), values->end(), [](int64_t z) { return z == 0; });
  w.zero = none ? kNone : r.Constant(r.value(w.zero).name, zero.Reshaped(Shape{one}));
  return w;
}

// A constant vector of `n` floats for the bias: as it is, or int32 where its steps are those of the sums.
ValueId BiasOf(Rewriter& r, ValueId v, double x_scale, const Weights& w, int64_t n) {
  const auto vector = [&](const Tensor& t) {
    return t.shape().num_elements() == n ? r.Constant(r.value(v).name, t.Reshaped(Shape{n})) : kNone;
  };
  if (r.IsConst(v)) return r.TypeOf(v) == DType::kF32 ? vector(r.value(v).constant) : kNone;
  const NodeId id = r.Producer(v, "DequantizeLinear");
  if (id == kNone || !r.IsConst(r.In(id, 0)) || !r.IsConst(r.In(id, 1))) return kNone;
  if (r.In(id, 2) != kNone && !r.IsConst(r.In(id, 2))) return kNone;
  const Tensor& bytes = r.value(r.In(id, 0)).constant;
  const Tensor& scale = r.value(r.In(id, 1)).constant;
  const Tensor& w_scale = r.value(w.scale).constant;
  if (bytes.shape().num_elements() != n || scale.dtype() != DType::kF32) return kNone;
  const auto each = [](const Tensor& t, int64_t i) { return t.Data<float>()[t.shape().num_elements() == 1 ? 0 : i]; };
  const auto zeros = r.In(id, 2) == kNone ? std::nullopt : ToInt64s(r.value(r.In(id, 2)).constant.view());
  bool same = bytes.dtype() == DType::kI32 && (scale.shape().num_elements() == n || scale.shape().num_elements() == 1);
  if (zeros) same = same && std::all_of(zeros->begin(), zeros->end(), [](int64_t z) { return z == 0; });
  for (int64_t i = 0; same && i < n; ++i) {
    const double want = x_scale * each(w_scale, i);
    same = std::abs(each(scale, i) - want) <= 1e-6 * want;
  }
  if (same) return vector(bytes);
  const ir::Node& node = r.node(id);
  std::vector<View> in;
  for (ValueId i : node.inputs) in.push_back(i == kNone ? View{} : r.value(i).constant.view());
  auto out = kernels::Evaluate(node.op, node.attrs, in, 1, r.context().isa, *r.context().team);
  return out.ok() && (*out)[0].dtype() == DType::kF32 ? vector((*out)[0]) : kNone;
}

bool Build(Rewriter& r, NodeId id, std::string_view op, const std::vector<ValueId>& inputs, const Attrs& attrs) {
  if (!r.KernelExists(op, attrs, inputs)) return false;
  const ValueId y = r.Add(op, inputs, attrs, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

void SetX(Attrs* attrs, const Quantisation& q) {
  attrs->Set("x_scale", q.scale);
  attrs->Set("x_zero_point", int64_t{q.zero});
}

bool FuseConv(Rewriter& r, NodeId id) {
  const auto x = Dequantised(r, r.In(id, 0));
  if (!x || !GivesFloat(r, id)) return false;
  const auto w = WeightsOf(r, r.In(id, 1), 0);
  if (!w) return false;
  Attrs attrs = r.node(id).attrs;
  SetX(&attrs, *x);
  ValueId bias = kNone;
  if (r.In(id, 2) != kNone) {
    bias = BiasOf(r, r.In(id, 2), x->scale, *w, r.ExtentOf(w->bytes, 0));
    if (bias == kNone) return false;
  }
  return Build(r, id, "QuantizedConv", {x->bytes, w->bytes, w->scale, bias, kNone, w->zero}, attrs);
}

bool FuseMatMul(Rewriter& r, NodeId id) {
  const auto x = Dequantised(r, r.In(id, 0));
  if (!x || !GivesFloat(r, id) || r.RankOf(r.In(id, 1)) != 2 || r.RankOf(r.In(id, 0)) < 2) return false;
  const Attrs& given = r.node(id).attrs;
  const bool gemm = r.node(id).op == "Gemm";
  const bool turned = gemm && given.Int("transB", 0) != 0;
  if (gemm && (given.Int("transA", 0) != 0 || given.Float("alpha", 1) != 1 || given.Float("beta", 1) != 1)) return false;
  const auto w = WeightsOf(r, r.In(id, 1), turned ? 0 : 1);
  if (!w) return false;
  Attrs attrs;
  SetX(&attrs, *x);
  if (turned) attrs.Set("transB", int64_t{1});
  ValueId bias = kNone;
  if (gemm && r.In(id, 2) != kNone) {
    bias = BiasOf(r, r.In(id, 2), x->scale, *w, r.ExtentOf(w->bytes, turned ? 0 : 1));
    if (bias == kNone) return false;
  }
  return Build(r, id, "QuantizedMatMul", {x->bytes, w->bytes, w->scale, bias, kNone, w->zero}, attrs);
}

// The fused operator whose bare f32 result only `id` reads; kNone otherwise.
NodeId BareProducer(const Rewriter& r, ValueId v) {
  const NodeId p = r.SoleProducer(v);
  if (p == kNone || !IsQuantizedOp(r.node(p).op) || !GivesFloat(r, p)) return kNone;
  return p;
}

bool FuseActivation(Rewriter& r, NodeId id) {
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ValueId v = r.In(id, side);
    const NodeId p = v == kNone || r.IsConst(v) ? kNone : BareProducer(r, v);
    if (p != kNone && FuseEpilogue(r, p, id)) return true;
  }
  return false;
}

// A constant that adds one number to each output channel of product `p`, as a vector (of int32 where that says the same, unless
// `as_float`); kNone otherwise.
ValueId ChannelAddend(Rewriter& r, NodeId p, ValueId v, bool as_float) {
  const int out_rank = r.RankOf(r.Out(p));
  const int axis = r.node(p).op == "QuantizedConv" ? 1 : out_rank - 1;
  const int rank = r.RankOf(v);
  if (out_rank < 2 || rank < 1 || rank > out_rank || r.TypeOf(v) != DType::kF32) return kNone;
  const int64_t n = r.ExtentOf(r.Out(p), axis);
  const int at = axis - (out_rank - rank);
  if (n < 1 || at < 0 || r.ExtentOf(v, at) != n || !r.ShapeOf(v).NumElements().Is(n)) return kNone;
  const Weights w{r.In(p, 1), r.In(p, 2), r.In(p, 5)};
  // No scale is below 0: then nothing says the same.
  const bool known = !as_float && r.In(p, kXScale) == kNone;
  return BiasOf(r, v, known ? r.node(p).attrs.Float("x_scale", 1) : -1, w, n);
}

ValueId With(Rewriter& r, NodeId p, size_t index, ValueId v, const Attrs& attrs) {
  std::vector<ValueId> inputs = r.node(p).inputs;
  inputs.resize(std::max(inputs.size(), index + 1), kNone);
  inputs[index] = v;
  if (!r.KernelExists(r.node(p).op, attrs, inputs)) return kNone;
  return r.Add(r.node(p).op, inputs, attrs, p);
}

// product + constant: the bias of a product that has none.
bool FuseBias(Rewriter& r, NodeId id) {
  for (size_t side : {size_t{0}, size_t{1}}) {
    const NodeId p = BareProducer(r, r.In(id, side));
    const ValueId b = r.In(id, 1 - side);
    if (p == kNone || b == kNone || r.In(p, kBias) != kNone || r.In(p, kResidual) != kNone || r.node(p).attrs.Has("grid_dtype") ||
        HasActivation(r.node(p).attrs)) {
      continue;
    }
    const ValueId bias = ChannelAddend(r, p, b, false);
    const ValueId y = bias == kNone ? kNone : With(r, p, kBias, bias, r.node(p).attrs);
    if (y == kNone) continue;
    r.Replace(r.Out(id), y);
    return true;
  }
  return false;
}

// What a DequantizeLinear reads, kNone when `v` comes from elsewhere.
ValueId DequantisedFrom(const Rewriter& r, ValueId v) {
  const NodeId id = r.Producer(v, "DequantizeLinear");
  return id == kNone ? kNone : r.In(id, 0);
}

bool FuseResidual(Rewriter& r, NodeId id) {
  for (size_t side : {size_t{1}, size_t{0}}) {
    const ValueId v = r.In(id, side);
    const ValueId other = r.In(id, 1 - side);
    if (v == kNone || other == kNone || v == other || r.TypeOf(other) != DType::kF32) continue;
    // The product itself, or its result quantised for this addition alone.
    const auto dq = Dequantised(r, v);
    const NodeId p = dq && r.OneReader(v) ? r.SoleProducer(dq->bytes) : BareProducer(r, v);
    if (p == kNone || !IsQuantizedOp(r.node(p).op) || r.In(p, kResidual) != kNone || HasActivation(r.node(p).attrs)) continue;
    Attrs attrs = r.node(p).attrs;
    if (dq) {
      // What the product was quantised to must be what is read: the same quantisation on both sides.
      if (attrs.Float("y_scale", 1) != dq->scale || attrs.Int("y_zero_point", 0) != dq->zero) continue;
      attrs.Set("grid_scale", dq->scale);
      attrs.Set("grid_zero_point", int64_t{dq->zero});
      attrs.Set("grid_dtype", static_cast<int64_t>(r.TypeOf(dq->bytes)));
      attrs.Erase("output_dtype");
      attrs.Erase("y_scale");
      attrs.Erase("y_zero_point");
    }
    ValueId residual = other;
    if (r.IsConst(other) || r.IsConst(DequantisedFrom(r, other))) {
      residual = ChannelAddend(r, p, other, true);
      if (residual == kNone) continue;
    } else if (!r.ShapeOf(v).has_rank() || !(r.ShapeOf(v) == r.ShapeOf(other))) {
      continue;
    } else if (const auto from = Dequantised(r, other)) {
      residual = from->bytes;
      attrs.Set("residual_scale", from->scale);
      attrs.Set("residual_zero_point", int64_t{from->zero});
    }
    const ValueId y = With(r, p, kResidual, residual, attrs);
    if (y == kNone) continue;
    r.Replace(r.Out(id), y);
    return true;
  }
  return false;
}

bool FuseAddition(Rewriter& r, NodeId id) {
  return r.node(id).op == "Add" && (FuseBias(r, id) || FuseResidual(r, id));
}

bool FuseQuantize(Rewriter& r, NodeId id) {
  if (r.node(id).op != "QuantizeLinear") return false;
  const NodeId p = BareProducer(r, r.In(id, 0));
  const auto q = QuantisationOf(r, id);
  if (p == kNone || !q) return false;
  Attrs attrs = r.node(p).attrs;
  attrs.Set("output_dtype", static_cast<int64_t>(r.TypeOf(r.Out(id))));
  attrs.Set("y_scale", q->scale);
  attrs.Set("y_zero_point", int64_t{q->zero});
  const ValueId y = r.Add(r.node(p).op, r.node(p).inputs, attrs, p);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

// QLinearConv and QLinearMatMul whose quantities are constants.
bool FuseLinearOp(Rewriter& r, NodeId id) {
  const bool conv = r.node(id).op == "QLinearConv";
  const auto scale = r.Scalar(r.In(id, 1)), y_scale = r.Scalar(r.In(id, 6));
  const auto zero = r.Scalar(r.In(id, 2)), y_zero = r.Scalar(r.In(id, 7));
  const ValueId w = r.In(id, 3), w_scale = r.In(id, 4), w_zero = r.In(id, 5);
  if (!scale || !y_scale || !zero || !y_zero || !r.IsConst(w) || !r.IsConst(w_scale) || !r.IsConst(w_zero)) return false;
  if (!(*scale > 0) || !(*y_scale > 0) || r.TypeOf(w_scale) != DType::kF32 || (!conv && r.RankOf(w) != 2)) return false;
  const int64_t n = r.ExtentOf(w, conv ? 0 : 1);
  const int64_t scales = r.value(w_scale).constant.shape().num_elements();
  const int64_t zeros = r.value(w_zero).constant.shape().num_elements();
  if ((scales != 1 && scales != n) || (zeros != 1 && zeros != n)) return false;
  if (!conv && r.RankOf(r.In(id, 0)) < 2) return false;
  const ValueId bias = conv ? r.In(id, 8) : kNone;
  if (bias != kNone && !r.IsConst(bias)) return false;
  Attrs attrs = r.node(id).attrs;
  SetX(&attrs, {kNone, static_cast<float>(*scale), static_cast<int32_t>(*zero)});
  attrs.Set("output_dtype", static_cast<int64_t>(r.TypeOf(r.Out(id))));
  attrs.Set("y_scale", static_cast<float>(*y_scale));
  attrs.Set("y_zero_point", static_cast<int64_t>(*y_zero));
  const ValueId flat_scale = r.Constant(r.value(w_scale).name, r.value(w_scale).constant.Reshaped(Shape{scales}));
  const ValueId flat_zero = r.Constant(r.value(w_zero).name, r.value(w_zero).constant.Reshaped(Shape{zeros}));
  return Build(r, id, conv ? "QuantizedConv" : "QuantizedMatMul", {r.In(id, 0), w, flat_scale, bias, kNone, flat_zero}, attrs);
}

// Cast(MatMulInteger(q, w, zero)) * (scale * w_scale), as dynamic quantisers write it; ConvInteger likewise.
bool FuseDynamic(Rewriter& r, NodeId id) {
  for (size_t side : {size_t{0}, size_t{1}}) {
    const NodeId cast = r.SoleProducer(r.In(id, side), "Cast");
    const NodeId scales = r.Producer(r.In(id, 1 - side), "Mul");
    if (cast == kNone || scales == kNone || !GivesFloat(r, cast)) continue;
    const NodeId product = r.SoleProducer(r.In(cast, 0));
    if (product == kNone) continue;
    const bool conv = r.node(product).op == "ConvInteger";
    if (!conv && r.node(product).op != "MatMulInteger") continue;
    const auto split = r.SplitConst(scales);
    const ValueId w = r.In(product, 1), w_zero = r.In(product, 3), x_zero = r.In(product, 2);
    if (!split || !r.IsConst(w) || (w_zero != kNone && !r.IsConst(w_zero)) || r.TypeOf(split->second) != DType::kF32) continue;
    if (!r.ShapeOf(split->first).has_rank() || !r.ShapeOf(split->first).NumElements().Is(1)) continue;
    if (x_zero != kNone && (!r.ShapeOf(x_zero).has_rank() || !r.ShapeOf(x_zero).NumElements().Is(1))) continue;
    if (!conv && (r.RankOf(w) != 2 || r.RankOf(r.In(product, 0)) < 2)) continue;
    // The scales of a convolution's channels come as a column.
    const int64_t n = r.ExtentOf(w, conv ? 0 : 1);
    const Tensor& scale = r.value(split->second).constant;
    const int64_t count = scale.shape().num_elements();
    if (count != 1 && count != n) continue;
    const int tail = conv ? r.RankOf(w) - 2 : 0;
    const int rank = scale.shape().rank();
    if (count != 1 && (rank <= tail || scale.shape()[rank - 1 - tail] != n)) continue;
    std::vector<ValueId> inputs{
        r.In(product, 0), w,     r.Constant(r.value(split->second).name, scale.Reshaped(Shape{count})), kNone, kNone, kNone,
        split->first,     x_zero};
    if (w_zero != kNone) {
      const Tensor& zero = r.value(w_zero).constant;
      const int64_t zeros = zero.shape().num_elements();
      if (zeros != 1 && zeros != n) continue;
      inputs[5] = r.Constant(r.value(w_zero).name, zero.Reshaped(Shape{zeros}));
    }
    if (Build(r, id, conv ? "QuantizedConv" : "QuantizedMatMul", inputs, r.node(product).attrs)) return true;
  }
  return false;
}

}  // namespace

Status QuantizedFusion(Rewriter& r) {
  TENON_RETURN_IF_ERROR(ApplyRules(r, {"Conv"}, {FuseConv}));
  TENON_RETURN_IF_ERROR(ApplyRules(r, {"MatMul", "Gemm"}, {FuseMatMul}));
  TENON_RETURN_IF_ERROR(ApplyRules(r, {"QLinearConv", "QLinearMatMul"}, {FuseLinearOp}));
  TENON_RETURN_IF_ERROR(ApplyRules(r, {"Mul"}, {FuseDynamic}));
  return ApplyRules(r, {}, {FuseAddition, FuseActivation, FuseQuantize});
}

}  // namespace tenon::passes
