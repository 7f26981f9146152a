// Operators that give elements another place or type.
#include "import/onnx/gradient/gradient.h"

namespace tenon::import::onnx_format::gradient {

namespace {

// Element i of x stands where the operator put it in the number i + 1, and 0 where there is none; so it is added to from there.
// `places` are the operator's output for such numbers in place of x.
Term AddFrom(Term g, Term places, Term x) {
  Builder* b = g.b;
  const Term flat{b, b->Ints({-1})};
  const Term count = Call("Reshape", {Call("Size", x), {b, b->Ints({1})}});
  const Term sums = Call("Expand", {Scalar(g, 0), count + Term{b, b->Ints({1})}});
  const std::vector<Term> in{sums, Call("Reshape", {places, flat}), Call("Reshape", {g, flat})};
  Attrs attrs = emit::IntAttr("axis", 0);
  attrs.Set("reduction", std::string("add"));
  const Term all = Call("ScatterElements", in, std::move(attrs));
  return ReshapeLike({b, emit::SliceBetween(b, all.id, 0, b->Ints({1}), (count + Term{b, b->Ints({1})}).id)}, x);
}

// 1, 2, ... in the shape of x.
Term Numbers(Term x) {
  Builder* b = x.b;
  const Term range = Call("Range", {{b, b->Int(1)}, Call("Size", x) + Term{b, b->Int(1)}, {b, b->Int(1)}});
  return ReshapeLike(range, x);
}

Term Again(Backward* s, std::vector<ValueId> inputs) {
  return {s->b, s->b->Emit(s->node.op, std::move(inputs), s->attrs())};
}

}  // namespace

Status IdentityGradient(Backward* s) {
  s->Set(0, s->G());
  return Status::Ok();
}

Status CastGradient(Backward* s) {
  if (s->Wants(0)) s->Set(0, Call("CastLike", {s->G(), s->X(0)}));
  return Status::Ok();
}

Status ReshapeGradient(Backward* s) {
  s->Set(0, ReshapeLike(s->G(), s->X(0)));
  return Status::Ok();
}

Status TransposeGradient(Backward* s) {
  const std::vector<int64_t> perm = s->attrs().Ints("perm");
  std::vector<int64_t> back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] < 0 || static_cast<size_t>(perm[i]) >= perm.size()) return BadInput("perm has {}", perm[i]);
    back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  s->Set(0, Call("Transpose", {s->G()}, perm.empty() ? Attrs() : emit::IntsAttr("perm", std::move(back))));
  return Status::Ok();
}

Status MoveGradient(Backward* s) {
  if (!s->Wants(0)) return Status::Ok();
  std::vector<ValueId> inputs = s->node.inputs;
  inputs[0] = Numbers(s->X(0)).id;
  s->Set(0, AddFrom(s->G(), Again(s, std::move(inputs)), s->X(0)));
  return Status::Ok();
}

// What is filled in has the number 0.
Status PadGradient(Backward* s) {
  if (s->Wants(2)) return Unsupported("its constant_value is not differentiated");
  if (!s->Wants(0)) return Status::Ok();
  std::vector<ValueId> inputs = s->node.inputs;
  inputs[0] = Numbers(s->X(0)).id;
  if (inputs.size() > 2) inputs[2] = ir::kNone;
  s->Set(0, AddFrom(s->G(), Again(s, std::move(inputs)), s->X(0)));
  return Status::Ok();
}

Status ConcatGradient(Backward* s) {
  Builder* b = s->b;
  const int64_t axis = s->attrs().Int("axis", 0);
  const auto rank = b->Rank(s->X(0).id);
  if (axis < 0 && !rank) return Unsupported("the rank of input 0 must be known");
  const int64_t from_front = axis < 0 ? axis + *rank : axis;
  Term start{b, b->Ints({0})};
  for (size_t i = 0; i < s->node.inputs.size(); ++i) {
    const Term end = start + Term{b, emit::Extent(b, s->X(i).id, from_front)};
    if (s->Wants(i)) s->Set(i, ReshapeLike({b, emit::SliceBetween(b, s->dy[0], axis, start.id, end.id)}, s->X(i)));
    start = end;
  }
  return Status::Ok();
}

Status SplitGradient(Backward* s) {
  std::vector<Term> parts;
  for (size_t i = 0; i < s->dy.size(); ++i) {
    if (s->node.outputs[i] == ir::kNone) return Unsupported("output {} is not computed", i);
    parts.push_back(s->dy[i] != ir::kNone ? Term{s->b, s->dy[i]} : ZerosLike({s->b, s->node.outputs[i]}));
  }
  s->Set(0, Call("Concat", std::move(parts), emit::IntAttr("axis", s->attrs().Int("axis", 0))));
  return Status::Ok();
}

Status ScatterElementsGradient(Backward* s) {
  const std::string reduction = s->attrs().String("reduction", "none");
  if (reduction != "none" && reduction != "add") return Unsupported("reduction {} has no rule; none and add have", reduction);
  const Attrs axis = emit::IntAttr("axis", s->attrs().Int("axis", 0));
  if (s->Wants(0)) {
    s->Set(0, reduction == "add" ? s->G() : Call("ScatterElements", {s->G(), s->X(1), ZerosLike(s->X(2))}, axis));
  }
  if (s->Wants(2)) s->Set(2, Call("GatherElements", {s->G(), s->X(1)}, axis));
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format::gradient
