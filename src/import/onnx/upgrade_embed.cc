// Embeddings of com.microsoft with their layer norm, said with Gather, Add and LayerNormalization.
#include "import/onnx/emit.h"

namespace tenon::import::onnx_format {

using ir::kNone;
using ir::ValueId;

namespace {

struct Tables {
  ValueId words = kNone, positions = kNone, segments = kNone, gamma = kNone, beta = kNone;
  ValueId segment_ids = kNone, position_ids = kNone, mask = kNone;
};

ValueId Look(Builder* b, ValueId table, ValueId ids) {
  return b->Emit("Gather", {table, ids}, emit::IntAttr("axis", 0));
}

// Output 1: ones of each row of the mask, 0 without a mask; output 2: the sum before the norm.
Status EmbedAndNormalise(Builder* b, Pending* p, const Tables& t) {
  const ValueId ids = p->In(0);
  if ((t.segments == kNone) != (t.segment_ids == kNone)) return BadInput("segment_ids and segment_embedding go together");
  const ValueId places = t.position_ids != kNone ? t.position_ids : emit::Count(b, emit::Extent(b, ids, 1));
  ValueId sum = b->Emit("Add", {Look(b, t.words, ids), Look(b, t.positions, places)});
  if (t.segments != kNone) sum = b->Emit("Add", {sum, Look(b, t.segments, t.segment_ids)});
  if (p->Used(1)) {
    ValueId counts = kNone;
    if (t.mask != kNone) {
      const ValueId ones = emit::Cast(b, b->Emit("Equal", {t.mask, b->ScalarLike(1, t.mask)}), DType::kI32);
      counts = b->Emit("ReduceSum", {ones, b->Ints({1})}, emit::IntAttr("keepdims", 0));
    } else {
      Attrs zero;
      zero.Set("value", Tensor::FromVector<int32_t>(Shape{1}, {0}));
      counts = b->Emit("ConstantOfShape", {emit::Extent(b, ids, 0)}, std::move(zero));
    }
    emit::Give(p, 1, counts);
  }
  emit::Give(p, 2, sum);
  Attrs attrs = emit::FloatAttr("epsilon", p->node.attrs.Float("epsilon", 1e-12F));
  attrs.Set("axis", int64_t{-1});
  emit::Become(b, p, "LayerNormalization", {sum, t.gamma, t.beta}, std::move(attrs));
  return Status::Ok();
}

}  // namespace

// input_ids, segment_ids, word_embedding, position_embedding, segment_embedding, gamma, beta, mask, position_ids
Status MicrosoftEmbedLayerNorm(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 2, 3, 5, 6}));
  Tables t;
  t.segment_ids = p->In(1), t.words = p->In(2), t.positions = p->In(3), t.segments = p->In(4);
  t.gamma = p->In(5), t.beta = p->In(6), t.mask = p->In(7), t.position_ids = p->In(8);
  return EmbedAndNormalise(b, p, t);
}

// The same with each table in integers: inputs 8 to 12 are their scales, 13 to 17 their zero points; no position_ids.
Status MicrosoftQEmbedLayerNorm(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 2, 3, 5, 6, 8, 9, 11, 12}));
  const auto table = [&](size_t at, size_t scale) -> ValueId {
    return p->Has(at) && p->Has(scale) ? b->Emit("DequantizeLinear", {p->In(at), p->In(scale), p->In(scale + 5)}) : kNone;
  };
  Tables t;
  t.segment_ids = p->In(1), t.mask = p->In(7);
  t.words = table(2, 8), t.positions = table(3, 9), t.segments = table(4, 10);
  t.gamma = table(5, 11), t.beta = table(6, 12);
  return EmbedAndNormalise(b, p, t);
}

}  // namespace tenon::import::onnx_format
