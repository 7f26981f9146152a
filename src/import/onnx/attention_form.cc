#include "import/onnx/attention_form.h"

namespace tenon::import::onnx_format {

using emit::Extent;
using ir::kNone;
using ir::ValueId;

namespace {

constexpr int64_t kMaxHeads = int64_t{1} << 20;

// Extent of the sequence axis of q, k or v.
Result<ValueId> Sequence(Builder* b, ValueId x) {
  const auto rank = b->Rank(x);
  if (!rank) return Unsupported("the ranks of query, key and value must be known");
  return Extent(b, x, *rank == 4 ? 2 : 1);
}

Result<ValueId> TotalLength(Builder* b, const AttentionForm& form) {
  TENON_ASSIGN_OR_RETURN(const ValueId fresh, Sequence(b, form.k));
  return form.past_key == kNone ? fresh : b->Emit("Add", {Extent(b, form.past_key, 2), fresh});
}

ValueId NumbersOf(Builder* b, ValueId visible, float hidden, ValueId like) {
  return b->Emit("Where", {visible, b->ScalarLike(0, like), b->ScalarLike(hidden, like)});
}

// [batch] ends, or [2 * batch] ends and then starts, of the keys in use: visible [batch, total].
ValueId VisibleRange(Builder* b, ValueId mask, ValueId batch, ValueId total, bool only_ends) {
  const ValueId ranges = emit::Cast(b, mask, DType::kI64);
  const ValueId zero = b->Ints({0});
  const ValueId place = emit::Count(b, total);
  const ValueId ends = emit::Unsqueeze(b, emit::SliceBetween(b, ranges, 0, zero, batch), {1});
  const ValueId before_end = b->Emit("Less", {place, ends});
  if (only_ends) return before_end;
  // Without starts the zeros are taken.
  const ValueId twice = b->Emit("Add", {batch, batch});
  const ValueId extended = emit::Concat(b, {ranges, b->Emit("Expand", {zero, batch})}, 0);
  const ValueId starts = emit::Unsqueeze(b, emit::SliceBetween(b, extended, 0, batch, twice), {1});
  return b->Emit("And", {before_end, b->Emit("GreaterOrEqual", {place, starts})});
}

}  // namespace

Result<AttentionForm> AttentionForm::Of(const Pending& p, bool grouped) {
  AttentionForm f;
  f.heads = p.node.attrs.Int("num_heads", 0);
  f.kv_heads = grouped ? p.node.attrs.Int("kv_num_heads", 0) : f.heads;
  if (f.heads < 1 || f.heads > kMaxHeads || f.kv_heads < 1 || f.heads % f.kv_heads != 0) {
    return BadInput("num_heads is {} and kv_num_heads {}; allowed: 1 to {}, the first a multiple of the second", f.heads,
                    f.kv_heads, kMaxHeads);
  }
  return f;
}

void AttentionForm::Become(Pending* p, Attrs extra) const {
  const float scale = p->node.attrs.Float("scale", 0);
  p->node.op = "Attention";
  p->node.inputs = {q, k, v, mask, past_key, past_value, lens};
  extra.Set("q_num_heads", heads);
  extra.Set("kv_num_heads", kv_heads);
  if (causal) extra.Set("is_causal", int64_t{1});
  if (scale != 0) extra.Set("scale", scale);
  p->node.attrs = std::move(extra);
}

Status AddKeyMask(Builder* b, const Pending& p, ValueId mask, AttentionForm* form) {
  const float hidden = p.node.attrs.Float("mask_filter_value", -10000.0F);
  const auto rank = b->Rank(mask);
  if (!rank || *rank < 1 || *rank > 3) {
    return Unsupported("a mask of rank {} is not supported; ranks 1 to 3 are", rank ? *rank : -1);
  }
  TENON_ASSIGN_OR_RETURN(const ValueId total, TotalLength(b, *form));
  ValueId visible = kNone;
  if (*rank == 1) {
    const SymShape& k = b->value(form->k).shape;  // its rank is known
    visible = VisibleRange(b, mask, Extent(b, form->k, 0), total, k.rank() > 0 && k[0] == b->value(mask).shape[0]);
  } else {
    visible = b->Emit("Greater", {mask, b->ScalarLike(0, mask)});
  }
  visible = emit::Unsqueeze(b, visible, *rank == 3 ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 2});
  AddBias(b, NumbersOf(b, visible, hidden, form->q), form);
  return Status::Ok();
}

void AddBias(Builder* b, ValueId bias, AttentionForm* form) {
  form->mask = form->mask == kNone ? bias : b->Emit("Add", {form->mask, bias});
}

Status SelfAttention(Builder* b, Pending* p, ValueId qkv, ValueId mask, ValueId past, ValueId bias) {
  TENON_ASSIGN_OR_RETURN(AttentionForm form, AttentionForm::Of(*p, false));
  const std::vector<int64_t> sizes = p->node.attrs.Ints("qkv_hidden_sizes");
  if (!sizes.empty() && sizes.size() != 3) return BadInput("qkv_hidden_sizes has {} values instead of 3", sizes.size());
  const std::vector<ValueId> parts = sizes.empty() ? emit::Split(b, qkv, 2, 3) : emit::Split(b, qkv, 2, sizes);
  form.q = parts[0], form.k = parts[1], form.v = parts[2];
  form.causal = p->node.attrs.Int("unidirectional", 0) != 0;
  if (past != kNone) {
    form.past_key = emit::Pick(b, past, 0, 0);
    form.past_value = emit::Pick(b, past, 0, 1);
  }
  if (mask != kNone) TENON_RETURN_IF_ERROR(AddKeyMask(b, *p, mask, &form));
  if (bias != kNone) AddBias(b, bias, &form);
  const bool present = p->Used(1);
  const ValueId joined = present ? p->node.outputs[1] : kNone;
  p->node.outputs.resize(1);
  if (p->node.outputs[0] == kNone) p->node.outputs[0] = b->NewValue("attention");
  if (present) {
    const ValueId key = b->NewValue("present_key"), value = b->NewValue("present_value");
    p->node.outputs.insert(p->node.outputs.end(), {key, value});
    const ValueId keys = b->NewValue("keys"), values = b->NewValue("values"), first = b->Ints({0});
    After(p, "Unsqueeze", {key, first}, {}, keys);
    After(p, "Unsqueeze", {value, first}, {}, values);
    After(p, "Concat", {keys, values}, emit::IntAttr("axis", 0), joined);
  }
  form.Become(p, {});
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
