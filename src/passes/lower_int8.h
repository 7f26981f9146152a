// One product or convolution as an integer operator: what LowerPrecision asks for nodes that compute in int8.
#ifndef TENON_PASSES_LOWER_INT8_H_
#define TENON_PASSES_LOWER_INT8_H_

#include <optional>
#include <unordered_map>

#include "passes/precision.h"
#include "passes/rewriter.h"

namespace tenon::passes {

/// How uint8 says numbers of float32: (byte - zero) * scale.
struct ByteGrid {
  float scale = 1;
  int64_t zero = 0;
};

/// The grid of the values seen in `v`; the range is widened to have 0 in it, as quantisers do.
std::optional<ByteGrid> GridOf(const Rewriter& r, ValueId v, const PrecisionPolicy& policy);

/// A value that lowered operators pass on as bytes.
struct Bytes {
  ValueId value = kNone;  ///< uint8
  ByteGrid grid;
};

/// By the float32 value that they stand for.
using BytesOf = std::unordered_map<ValueId, Bytes>;

/// Whether an integer operator made of node `id` can read its input `i` as bytes.
bool ReadsBytes(const Rewriter& r, NodeId id, size_t i);

struct Int8Request {
  DType output = DType::kF32;  ///< f32, bf16, or u8 by `grid`
  ByteGrid grid;
};

/// With PrecisionPolicy::weights_only what passes/weight_only.h makes of the node, else
/// the node as QuantizedMatMul (its input quantised as `policy` says) or QuantizedConv (by the range in `policy`), with
/// weights in int8 by output channel; inputs that are `bytes` already are read as they are. kNone, with a reason, when it cannot
/// be one: then nothing was added.
ValueId AddInt8(Rewriter& r, NodeId id, const PrecisionPolicy& policy, const BytesOf& bytes, const Int8Request& request,
                std::string* reason);

}  // namespace tenon::passes

#endif  // TENON_PASSES_LOWER_INT8_H_
