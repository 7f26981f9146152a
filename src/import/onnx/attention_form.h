// What the attention operators of com.microsoft have in common: they all become the ONNX operator Attention.
#ifndef TENON_IMPORT_ONNX_ATTENTION_FORM_H_
#define TENON_IMPORT_ONNX_ATTENTION_FORM_H_

#include "import/onnx/emit.h"

namespace tenon::import::onnx_format {

/// The operands of an Attention node; each of q, k, v is [batch, seq, heads * dim] or [batch, heads, seq, dim].
struct AttentionForm {
  ir::ValueId q = ir::kNone, k = ir::kNone, v = ir::kNone;
  ir::ValueId mask = ir::kNone;  ///< additive, broadcastable to [batch, heads, q_seq, total]
  ir::ValueId past_key = ir::kNone, past_value = ir::kNone;
  ir::ValueId lens = ir::kNone;  ///< keys in use of each batch
  int64_t heads = 0, kv_heads = 0;
  bool causal = false;

  /// From attributes num_heads and, where the operator has it, kv_num_heads.
  static Result<AttentionForm> Of(const Pending& p, bool grouped);
  /// p's node becomes Attention; `extra` attributes join those of the form. Attribute scale of p is taken over.
  void Become(Pending* p, Attrs extra) const;
};

/// Adds to form->mask what a mask of com.microsoft says: [batch], [2 * batch], [batch, total] or [batch, q_seq, total], values
/// above 0 visible. Hidden keys get attribute mask_filter_value, a number: where all that a query could see is hidden, the
/// differences of the scores still count.
Status AddKeyMask(Builder* b, const Pending& p, ir::ValueId mask, AttentionForm* form);

/// A mask of one head's scores, added to what is there.
void AddBias(Builder* b, ir::ValueId bias, AttentionForm* form);

/// Attention over [batch, seq, q + k + v]; `past` and output 1 are [2, batch, heads, seq, dim].
Status SelfAttention(Builder* b, Pending* p, ir::ValueId qkv, ir::ValueId mask, ir::ValueId past, ir::ValueId bias);

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_ATTENTION_FORM_H_
