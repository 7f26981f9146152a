// Reductions over axes, and what is made of them.
#include "import/onnx/gradient/gradient.h"

namespace tenon::import::onnx_format::gradient {

namespace {

// A value of the reduction's output shape in the rank of its input, to be broadcast to it.
Term Spread(Backward* s, Term v) {
  if (s->attrs().Int("keepdims", 1) != 0) return v;
  Builder* b = s->b;
  const auto axes = s->Has(1) ? b->ConstInts(s->X(1).id) : std::nullopt;
  if (axes && !axes->empty()) return {b, emit::Unsqueeze(b, v.id, *axes)};
  Attrs attrs = s->attrs();
  attrs.Set("keepdims", int64_t{1});
  return ReshapeLike(v, {b, b->Emit(s->node.op, s->node.inputs, std::move(attrs))});
}

Term Full(Backward* s, Term g) {
  return Call("Expand", {g, ShapeOf(s->X(0))});
}

}  // namespace

Status ReduceSumGradient(Backward* s) {
  s->Set(0, Full(s, Spread(s, s->G())));
  return Status::Ok();
}

Status ReduceMeanGradient(Backward* s) {
  const Term count = Call("CastLike", {Call("Size", s->X(0)), s->G()}) / Call("CastLike", {Call("Size", s->Y()), s->G()});
  s->Set(0, Full(s, Spread(s, s->G() / count)));
  return Status::Ok();
}

Status ReduceL1Gradient(Backward* s) {
  s->Set(0, Spread(s, s->G()) * Call("Sign", s->X(0)));
  return Status::Ok();
}

Status ReduceL2Gradient(Backward* s) {
  s->Set(0, Spread(s, s->G() / s->Y()) * s->X(0));
  return Status::Ok();
}

Status ReduceSumSquareGradient(Backward* s) {
  s->Set(0, Spread(s, s->G() * 2) * s->X(0));
  return Status::Ok();
}

Status ReduceLogSumGradient(Backward* s) {
  s->Set(0, Full(s, Spread(s, s->G() * Call("Exp", -s->Y()))));
  return Status::Ok();
}

Status ReduceLogSumExpGradient(Backward* s) {
  s->Set(0, Spread(s, s->G()) * Call("Exp", s->X(0) - Spread(s, s->Y())));
  return Status::Ok();
}

// Equal elements share.
Status ReduceExtremeGradient(Backward* s) {
  const Term hits = Count(Equal(s->X(0), Spread(s, s->Y())), s->G());
  Attrs attrs = emit::IntAttr("keepdims", 1);
  attrs.Set("noop_with_empty_axes", s->attrs().Int("noop_with_empty_axes", 0));
  const std::vector<Term> in = s->Has(1) ? std::vector<Term>{hits, s->X(1)} : std::vector<Term>{hits};
  s->Set(0, Spread(s, s->G()) * hits / Call("ReduceSum", in, std::move(attrs)));
  return Status::Ok();
}

Status SoftmaxGradient(Backward* s) {
  const Term weighted = s->G() * s->Y();
  s->Set(0, weighted - s->Y() * ReduceSum(weighted, {s->attrs().Int("axis", -1)}, true));
  return Status::Ok();
}

Status LogSoftmaxGradient(Backward* s) {
  s->Set(0, s->G() - Call("Exp", s->Y()) * ReduceSum(s->G(), {s->attrs().Int("axis", -1)}, true));
  return Status::Ok();
}

Status CumSumGradient(Backward* s) {
  Attrs attrs = s->attrs();
  attrs.Set("reverse", int64_t{attrs.Int("reverse", 0) == 0 ? 1 : 0});
  s->Set(0, Call("CumSum", {s->G(), s->X(1)}, std::move(attrs)));
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format::gradient
