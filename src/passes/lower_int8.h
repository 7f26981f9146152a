// One product or convolution as an integer operator: what LowerPrecision asks for nodes that compute in int8.
#ifndef TENON_PASSES_LOWER_INT8_H_
#define TENON_PASSES_LOWER_INT8_H_

#include "passes/precision.h"
#include "passes/rewriter.h"

namespace tenon::passes {

/// The node as QuantizedMatMul (its input quantised by the range of each run) or QuantizedConv (by the range in `policy`), with
/// weights in int8 by output channel and a result of `output` (f32 or bf16). kNone, with a reason, when it cannot be one: then
/// nothing was added.
ValueId AddInt8(Rewriter& r, NodeId id, const PrecisionPolicy& policy, DType output, std::string* reason);

}  // namespace tenon::passes

#endif  // TENON_PASSES_LOWER_INT8_H_
