// Channels-last operators of com.microsoft: transposes around the operator of ONNX, which passes cancel against each other.
#include "import/onnx/emit.h"

namespace tenon::import::onnx_format {

using ir::kNone;
using ir::ValueId;

Status MicrosoftNhwcMaxPool(Builder* b, Pending* p) {
  return emit::BecomeChannelsFirst(b, p, "MaxPool", true);
}

// X, W, bias, and for NhwcFusedConv a residual
Status MicrosoftNhwcConv(Builder* b, Pending* p) {
  if (p->node.op == "com.microsoft.NhwcConv") return emit::BecomeChannelsFirst(b, p, "Conv", true);
  return emit::BecomeChannelsFirst(b, p, "FusedConv", true, {3});
}

namespace {

// The normalised x with the activation, as p's output. x, gamma, beta have their values already.
Status GroupNorm(Builder* b, Pending* p, ValueId x, int rank) {
  const Attrs& a = p->node.attrs;
  const int64_t activation = a.Int("activation", 0);
  if (activation != 0 && activation != 1) return BadInput("activation is {}; allowed: 0, 1", activation);
  const bool last = a.Int("channels_last", 1) != 0;
  Attrs attrs = emit::IntAttr("num_groups", a.Int("groups", 0));
  attrs.Set("epsilon", a.Float("epsilon", 1e-5F));
  if (last) x = emit::ToChannelsFirst(b, x, rank);
  const ValueId gamma = b->Emit("CastLike", {p->In(1), x}), beta = b->Emit("CastLike", {p->In(2), x});
  ValueId y = b->Emit("GroupNormalization", {x, gamma, beta}, std::move(attrs));
  if (activation == 1) y = b->Emit("Swish", {y});
  emit::Become(b, p, "Identity", {last ? emit::ToChannelsLast(b, y, rank) : y});
  return Status::Ok();
}

}  // namespace

// X, gamma, beta; X is [n, h, w, c] with channels_last (the default), else [n, c, h, w]
Status MicrosoftGroupNorm(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2}));
  TENON_ASSIGN_OR_RETURN(const int rank, emit::NeedRank(*b, *p, 0));
  if (rank != 4) return BadInput("X has rank {}; 4 is needed", rank);
  return GroupNorm(b, p, p->In(0), rank);
}

// X, gamma, beta, skip (also [n, c]), bias [c]; output 1 is the sum before the norm
Status MicrosoftSkipGroupNorm(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2, 3}));
  TENON_ASSIGN_OR_RETURN(const int rank, emit::NeedRank(*b, *p, 0));
  TENON_ASSIGN_OR_RETURN(const int skip_rank, emit::NeedRank(*b, *p, 3));
  if (rank != 4 || (skip_rank != 4 && skip_rank != 2)) {
    return BadInput("X has rank {} and skip {}; needed are 4, and 4 or 2", rank, skip_rank);
  }
  const bool last = p->node.attrs.Int("channels_last", 1) != 0;
  ValueId skip = p->In(3);
  if (skip_rank == 2) skip = emit::Unsqueeze(b, skip, last ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2, 3});
  ValueId sum = b->Emit("Add", {p->In(0), skip});
  if (p->Has(4)) sum = b->Emit("Add", {sum, last ? p->In(4) : emit::Reshape(b, p->In(4), {-1, 1, 1})});
  emit::Give(p, 1, sum);
  return GroupNorm(b, p, sum, rank);
}

// X, W, pads, bias
Status MicrosoftConvTransposeWithPads(Builder* b, Pending* p) {
  if (p->Has(2)) {
    const auto pads = b->ConstInts(p->In(2));
    if (!pads) return Unsupported("pads must be a constant");
    p->node.attrs.Set("pads", *pads);
  }
  p->node.op = "ConvTranspose";
  p->node.inputs = {p->In(0), p->In(1), p->In(3)};
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
