// Functions of several operands that are broadcast to one shape: what comes back is summed to the shape of each operand.
#include <algorithm>

#include "import/onnx/gradient/gradient.h"

namespace tenon::import::onnx_format::gradient {

Status AddGradient(Backward* s) {
  for (size_t i = 0; i < s->node.inputs.size(); ++i) s->SetReduced(i, s->G());
  return Status::Ok();
}

Status MeanGradient(Backward* s) {
  const Term share = s->G() / static_cast<double>(s->node.inputs.size());
  for (size_t i = 0; i < s->node.inputs.size(); ++i) s->SetReduced(i, share);
  return Status::Ok();
}

Status SubGradient(Backward* s) {
  s->SetReduced(0, s->G());
  if (s->Wants(1)) s->SetReduced(1, -s->G());
  return Status::Ok();
}

Status MulGradient(Backward* s) {
  if (s->Wants(0)) s->SetReduced(0, s->G() * s->X(1));
  if (s->Wants(1)) s->SetReduced(1, s->G() * s->X(0));
  return Status::Ok();
}

Status DivGradient(Backward* s) {
  if (s->Wants(0)) s->SetReduced(0, s->G() / s->X(1));
  if (s->Wants(1)) s->SetReduced(1, -(s->G() * s->Y() / s->X(1)));
  return Status::Ok();
}

// d(x^e)/dx = e x^(e-1), 0 for e = 0; d(x^e)/de = x^e log x, 0 for x = 0
Status PowGradient(Backward* s) {
  const Term x = s->X(0), given = s->X(1);
  const Term e = s->b->value(given.id).dtype == s->b->value(x.id).dtype ? given : Call("CastLike", {given, x});
  if (s->Wants(0)) {
    const auto known = s->b->ConstDoubles(given.id);
    Term slope = e * Call("Pow", {x, e + -1.0});
    if (known && known->size() == 1 && (*known)[0] == 2) {
      slope = x * 2;
    } else if (!known || std::find(known->begin(), known->end(), 0.0) != known->end()) {
      slope = Select(Equal(e, Scalar(e, 0)), Scalar(x, 0), slope);
    }
    s->SetReduced(0, s->G() * slope);
  }
  if (s->Wants(1)) {
    const Term slope = s->Y() * Call("Log", x);
    s->SetReduced(1, s->G() * Select(Equal(x, Scalar(x, 0)), Scalar(x, 0), slope));
  }
  return Status::Ok();
}

// The operand that is the result gets it; equal ones share.
Status ExtremeGradient(Backward* s) {
  const size_t n = s->node.inputs.size();
  std::vector<Term> hits;
  for (size_t i = 0; i < n; ++i) hits.push_back(Count(Equal(s->X(i), s->Y()), s->G()));
  Term sum = hits[0];
  for (size_t i = 1; i < n; ++i) sum = sum + hits[i];
  const Term share = s->G() / sum;
  for (size_t i = 0; i < n; ++i) {
    if (s->Wants(i)) s->SetReduced(i, share * hits[i]);
  }
  return Status::Ok();
}

Status WhereGradient(Backward* s) {
  const Term zero = Scalar(s->G(), 0);
  if (s->Wants(1)) s->SetReduced(1, Select(s->X(0), s->G(), zero));
  if (s->Wants(2)) s->SetReduced(2, Select(s->X(0), zero, s->G()));
  return Status::Ok();
}

// x inside the bounds passes, else the bound that was given.
Status ClipGradient(Backward* s) {
  const Term x = s->X(0), zero = Scalar(s->G(), 0);
  s->Set(0, Select(Equal(x, s->Y()), s->G(), zero));
  if (s->Wants(1)) s->SetReduced(1, Select(Less(x, s->Y()), s->G(), zero));
  if (s->Wants(2)) s->SetReduced(2, Select(Less(s->Y(), x), s->G(), zero));
  return Status::Ok();
}

Status PReluGradient(Backward* s) {
  const Term x = s->X(0), slope = s->X(1), negative = Less(x, 0.0);
  if (s->Wants(0)) s->Set(0, s->G() * Select(negative, slope, Scalar(x, 1)));
  if (s->Wants(1)) s->SetReduced(1, s->G() * Select(negative, x, Scalar(x, 0)));
  return Status::Ok();
}

Status ExpandGradient(Backward* s) {
  s->SetReduced(0, s->G());
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format::gradient
