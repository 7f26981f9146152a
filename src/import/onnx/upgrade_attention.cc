// Attention of com.microsoft in its forms, said with the ONNX operators Attention, RotaryEmbedding and TensorScatter.
#include "import/onnx/attention_form.h"

namespace tenon::import::onnx_format {

using emit::Extent;
using ir::kNone;
using ir::ValueId;

namespace {

// Attributes that must keep a value, as they are for other devices or not served.
struct Fixed {
  const char* name;
  int64_t value;
};

Status Refuse(const Pending& p, std::initializer_list<Fixed> attributes, std::initializer_list<size_t> inputs) {
  for (const Fixed& f : attributes) {
    const int64_t given = p.node.attrs.Int(f.name, f.value);
    if (given != f.value) return Unsupported("{} = {} is not supported; {} is", f.name, given, f.value);
  }
  for (size_t i : inputs) {
    if (p.Has(i)) return Unsupported("input {} is not supported", i);
  }
  return Status::Ok();
}

ValueId Heads4(Builder* b, ValueId x, int64_t heads) {
  return emit::Transpose(b, emit::Reshape(b, x, {0, 0, heads, -1}), {0, 2, 1, 3});
}

}  // namespace

// input, weights, bias, mask_index, past, attention_bias, past_sequence_length
Status MicrosoftAttention(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  TENON_RETURN_IF_ERROR(Refuse(*p, {{"do_rotary", 0}, {"past_present_share_buffer", 0}}, {6}));
  ValueId qkv = b->Emit("MatMul", {p->In(0), p->In(1)});
  if (p->Has(2)) qkv = b->Emit("Add", {qkv, p->In(2)});
  return SelfAttention(b, p, qkv, p->In(3), p->In(4), p->In(5));
}

namespace {

// Query, key and value of MultiHeadAttention: [batch, seq, heads * dim]; packed with a further axis; key and value may be
// [batch, heads, seq, dim], which the bias does not go with.
Status ReadOperands(Builder* b, const Pending& p, AttentionForm* form) {
  TENON_ASSIGN_OR_RETURN(const int rank, emit::NeedRank(*b, p, 0));
  const auto part = [&](ValueId packed, int64_t i) { return emit::Reshape(b, emit::Pick(b, packed, 3, i), {0, 0, -1}); };
  if (rank == 5) {
    if (p.Has(1) || p.Has(2)) return BadInput("key and value are given beside a packed query");
    form->q = part(p.In(0), 0), form->k = part(p.In(0), 1), form->v = part(p.In(0), 2);
    return Status::Ok();
  }
  if (rank != 3 || !p.Has(1)) return BadInput("query has rank {}; allowed: 3 with a key, or 5", rank);
  TENON_ASSIGN_OR_RETURN(const int key_rank, emit::NeedRank(*b, p, 1));
  form->q = p.In(0);
  if (key_rank == 5) {
    form->k = part(p.In(1), 0), form->v = part(p.In(1), 1);
    return p.Has(2) ? BadInput("value is given beside a packed key") : Status::Ok();
  }
  TENON_RETURN_IF_ERROR(emit::Need(p, {2}));
  form->k = p.In(1), form->v = p.In(2);
  return Status::Ok();
}

// bias [q + k + v]
void AddProjectionBias(Builder* b, ValueId bias, AttentionForm* form) {
  const ValueId width = Extent(b, form->q, 2);
  const ValueId twice = b->Emit("Add", {width, width});
  form->q = b->Emit("Add", {form->q, emit::SliceBetween(b, bias, 0, b->Ints({0}), width)});
  if (b->Rank(form->k) == 4) return;
  form->k = b->Emit("Add", {form->k, emit::SliceBetween(b, bias, 0, width, twice)});
  form->v = b->Emit("Add", {form->v, emit::SliceBetween(b, bias, 0, twice, b->Ints({INT64_MAX}))});
}

// past_key and past_value are buffers [batch, heads, longest, dim] with `length` positions in use: the new ones go after these.
// Outputs 1 and 2 are the buffers.
Status WriteBuffers(Builder* b, Pending* p, ValueId length, AttentionForm* form) {
  if (form->past_key == kNone) return BadInput("past_sequence_length is given without past_key");
  if (b->Rank(form->k) != 3 || b->Rank(form->v) != 3) return Unsupported("a shared buffer goes with a key of rank 3");
  const ValueId batch = Extent(b, form->q, 0), fresh = Extent(b, form->k, 1);
  const ValueId past = b->Emit("Expand", {emit::Cast(b, emit::Reshape(b, length, {1}), DType::kI64), batch});
  const auto write = [&](ValueId buffer, ValueId x) {
    return b->Emit("TensorScatter", {buffer, Heads4(b, x, form->heads), past}, emit::IntAttr("axis", 2));
  };
  form->k = write(form->past_key, form->k);
  form->v = write(form->past_value, form->v);
  form->past_key = form->past_value = kNone;
  form->lens = b->Emit("Add", {past, fresh});
  emit::Give(p, 1, form->k);
  emit::Give(p, 2, form->v);
  if (p->Used(3)) return Unsupported("output qk is not supported with a shared buffer");
  p->node.outputs.resize(1);
  return Status::Ok();
}

}  // namespace

// query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value, past_sequence_length, cache_indirection
Status MicrosoftMultiHeadAttention(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  TENON_RETURN_IF_ERROR(Refuse(*p, {}, {9}));
  TENON_ASSIGN_OR_RETURN(AttentionForm form, AttentionForm::Of(*p, false));
  TENON_RETURN_IF_ERROR(ReadOperands(b, *p, &form));
  if (p->Has(3)) AddProjectionBias(b, p->In(3), &form);
  if (p->Has(6) != p->Has(7)) return BadInput("past_key and past_value must be given together");
  form.past_key = p->In(6), form.past_value = p->In(7);
  form.causal = p->node.attrs.Int("unidirectional", 0) != 0;
  if (p->Has(4)) TENON_RETURN_IF_ERROR(AddKeyMask(b, *p, p->In(4), &form));
  if (p->Has(5)) AddBias(b, p->In(5), &form);
  if (p->Has(8)) TENON_RETURN_IF_ERROR(WriteBuffers(b, p, p->In(8), &form));
  Attrs extra;
  // The scores with the masks added, before the softmax.
  if (p->Used(3)) extra.Set("qk_matmul_output_mode", int64_t{2});
  form.Become(p, std::move(extra));
  return Status::Ok();
}

// query, key, value, mask_index, attention_bias, past_key, past_value, past_sequence_length, beam_width, cache_indirection, bias
Status MicrosoftDecoderMaskedAttention(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  TENON_RETURN_IF_ERROR(Refuse(*p, {}, {9}));
  const bool shared = p->node.attrs.Int("past_present_share_buffer", 0) != 0 && p->Has(5);
  if (shared) TENON_RETURN_IF_ERROR(emit::Need(*p, {7}));
  std::vector<ValueId> inputs{
      p->In(0), p->In(1), p->In(2), p->In(10), p->In(3), p->In(4), p->In(5), p->In(6), shared ? p->In(7) : kNone};
  if (!p->Has(1)) {
    const std::vector<ValueId> parts = emit::Split(b, p->In(0), 2, 3);
    std::copy(parts.begin(), parts.end(), inputs.begin());
  }
  p->node.inputs = std::move(inputs);
  return MicrosoftMultiHeadAttention(b, p);
}

// input, position_ids ([1]: the first position, or [batch, seq]), cos_cache, sin_cache
Status MicrosoftRotaryEmbedding(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2, 3}));
  TENON_RETURN_IF_ERROR(Refuse(*p, {{"is_packed_batching", 0}}, {}));
  TENON_ASSIGN_OR_RETURN(const int rank, emit::NeedRank(*b, *p, 0));
  TENON_ASSIGN_OR_RETURN(const int id_rank, emit::NeedRank(*b, *p, 1));
  if (rank != 3 && rank != 4) return BadInput("input has rank {}; allowed: 3, 4", rank);
  int64_t heads = p->node.attrs.Int("num_heads", 0);
  if (rank == 3 && heads == 0) {
    // The caches tell the extent of a head.
    const SymShape& x = b->value(p->In(0)).shape;
    const SymShape& cache = b->value(p->In(2)).shape;
    if (!cache.has_rank() || cache.rank() != 2 || !cache[1].is_const() || !x[2].is_const()) {
      return Unsupported("without num_heads the extents of input and cos_cache must be known");
    }
    const int64_t width = 2 * cache[1].value();
    if (width < 1 || x[2].value() % width != 0) return BadInput("input is {} and cos_cache {}", x.ToString(), cache.ToString());
    heads = x[2].value() / width;
  }
  ValueId ids = p->In(1);
  if (id_rank == 1) {
    const ValueId place = b->Emit("Add", {ids, emit::Count(b, Extent(b, p->In(0), rank == 4 ? 2 : 1))});
    const ValueId shape = emit::Concat(b, {Extent(b, p->In(0), 0), Extent(b, place, 0)}, 0);
    ids = b->Emit("Expand", {place, shape});
  }
  Attrs attrs = emit::IntAttr("interleaved", p->node.attrs.Int("interleaved", 0));
  attrs.Set("rotary_embedding_dim", p->node.attrs.Int("rotary_embedding_dim", 0));
  if (rank == 3) attrs.Set("num_heads", heads);
  emit::Become(b, p, "RotaryEmbedding", {p->In(0), p->In(2), p->In(3), ids}, std::move(attrs));
  return Status::Ok();
}

namespace {

constexpr size_t kPastKey = 3, kPastValue = 4, kLens = 5, kTotal = 6, kCos = 7, kSin = 8, kPositions = 9, kBias = 10;

// Where the step of GroupQueryAttention stands: int64 values.
struct Step {
  ValueId fresh;   // [1] new positions
  ValueId total;   // [1] most positions of a batch after the step
  ValueId prompt;  // [1] true for a first prompt, which may be padded on the right
  ValueId past;    // [batch] positions in use before the step
};

Step ReadStep(Builder* b, const Pending& p, ValueId q) {
  Step s;
  s.fresh = Extent(b, q, 1);
  s.total = emit::Cast(b, emit::Reshape(b, p.In(kTotal), {1}), DType::kI64);
  s.prompt = b->Emit("Equal", {s.total, s.fresh});
  const ValueId zero = b->Ints({0});
  const ValueId lens = emit::Cast(b, emit::Reshape(b, p.In(kLens), {-1}), DType::kI64);
  const ValueId before = b->Emit("Sub", {b->Emit("Add", {lens, b->Ints({1})}), s.fresh});
  s.past = b->Emit("Where", {s.prompt, zero, b->Emit("Max", {before, zero})});
  return s;
}

// Query or key turned by its positions.
ValueId Rotate(Builder* b, const Pending& p, ValueId x, ValueId ids, int64_t heads) {
  Attrs attrs = emit::IntAttr("interleaved", p.node.attrs.Int("rotary_interleaved", 0));
  attrs.Set("num_heads", heads);
  const SymShape& cache = b->value(p.In(kCos)).shape;
  if (cache.has_rank() && cache.rank() == 2 && cache[1].is_const()) {
    attrs.Set("rotary_embedding_dim", 2 * cache[1].value());
  }
  return b->Emit("RotaryEmbedding", {x, p.In(kCos), p.In(kSin), ids}, std::move(attrs));
}

ValueId Positions(Builder* b, const Pending& p, const Step& s) {
  const ValueId places = emit::Count(b, s.fresh);
  if (!p.Has(kPositions)) return b->Emit("Add", {emit::Unsqueeze(b, s.past, {1}), places});
  // A first prompt goes by the first position alone.
  const ValueId first = emit::Slice(b, emit::Reshape(b, p.In(kPositions), {-1}), 0, 0, 1);
  return b->Emit("Where", {s.prompt, b->Emit("Add", {first, places}), p.In(kPositions)});
}

// The cache with room for all positions, and the new ones written at their places.
ValueId Write(Builder* b, const Step& s, ValueId cache, ValueId fresh) {
  const ValueId zero = b->Ints({0});
  const ValueId room = b->Emit("Max", {b->Emit("Sub", {s.total, Extent(b, cache, 2)}), zero});
  const ValueId pads = emit::Concat(b, {b->Ints({0, 0, 0, 0, 0, 0}), room, zero}, 0);
  return b->Emit("TensorScatter", {b->Emit("Pad", {cache, pads}), fresh, s.past}, emit::IntAttr("axis", 2));
}

// The operands, from [batch, seq, (heads + 2 * kv_heads) * dim] where key is absent.
Status ReadGrouped(Builder* b, const Pending& p, AttentionForm* form) {
  form->q = p.In(0), form->k = p.In(1), form->v = p.In(2);
  if (p.Has(1) != p.Has(2)) return BadInput("key and value must be given together");
  if (p.Has(1)) return Status::Ok();
  const int64_t h = form->heads, g = form->kv_heads;
  const ValueId packed = emit::Reshape(b, p.In(0), {0, 0, h + 2 * g, -1});
  const auto part = [&](int64_t from, int64_t to) { return emit::Reshape(b, emit::Slice(b, packed, 2, from, to), {0, 0, -1}); };
  form->q = part(0, h), form->k = part(h, h + g), form->v = part(h + g, h + 2 * g);
  return Status::Ok();
}

Status CheckGrouped(const Pending& p) {
  TENON_RETURN_IF_ERROR(emit::Need(p, {0, kLens, kTotal}));
  TENON_RETURN_IF_ERROR(
      Refuse(p, {{"smooth_softmax", -1}, {"sliding_window_cache", 0}, {"qk_output", 0}}, {11, 12, 13, 14, 15, 16}));
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    if (p.node.attrs.String(name, "NONE") != "NONE") return Unsupported("{} is not supported; NONE is", name);
  }
  if (p.Has(kPastKey) != p.Has(kPastValue)) return BadInput("past_key and past_value must be given together");
  if (p.node.attrs.Int("do_rotary", 0) != 0) TENON_RETURN_IF_ERROR(emit::Need(p, {kCos, kSin}));
  return Status::Ok();
}

}  // namespace

// query, key, value, past_key, past_value, seqlens_k (positions in use after the step, less one), total_sequence_length (their
// maximum), cos_cache, sin_cache, position_ids, attention_bias, ...
//
// Batch b has past[b] positions in its cache; the new ones are written after these. Queries are the last of past[b] + seq
// positions, by which a first prompt that is padded on the right sees what lies to its left.
Status MicrosoftGroupQueryAttention(Builder* b, Pending* p) {
  if (p->node.attrs.Int("smooth_softmax", 0) == 0) p->node.attrs.Erase("smooth_softmax");
  TENON_RETURN_IF_ERROR(CheckGrouped(*p));
  TENON_ASSIGN_OR_RETURN(AttentionForm form, AttentionForm::Of(*p, true));
  TENON_RETURN_IF_ERROR(ReadGrouped(b, *p, &form));
  const Step step = ReadStep(b, *p, form.q);
  if (p->node.attrs.Int("do_rotary", 0) != 0) {
    const ValueId ids = Positions(b, *p, step);
    form.q = Rotate(b, *p, form.q, ids, form.heads);
    form.k = Rotate(b, *p, form.k, ids, form.kv_heads);
  }
  form.causal = p->node.attrs.Int("causal", 1) != 0;
  if (p->Has(kBias)) AddBias(b, p->In(kBias), &form);
  if (p->Has(kPastKey)) {
    form.k = Write(b, step, p->In(kPastKey), Heads4(b, form.k, form.kv_heads));
    form.v = Write(b, step, p->In(kPastValue), Heads4(b, form.v, form.kv_heads));
    form.lens = b->Emit("Add", {step.past, step.fresh});
    emit::Give(p, 1, form.k);
    emit::Give(p, 2, form.v);
    p->node.outputs.resize(1);
  }
  Attrs extra;
  const float softcap = p->node.attrs.Float("softcap", 0);
  if (softcap > 0) extra.Set("softcap", softcap);
  const int64_t window = p->node.attrs.Int("local_window_size", -1);
  if (window > 0) extra.Set("left_window_size", window - 1);
  form.Become(p, std::move(extra));
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
