// A product or a table of embeddings whose weights alone are rounded: what LowerPrecision asks for when the policy says so.
#ifndef TENON_PASSES_WEIGHT_ONLY_H_
#define TENON_PASSES_WEIGHT_ONLY_H_

#include <string>

#include "passes/rewriter.h"

namespace tenon::passes {

/// The node as BlockMatMul or BlockGather with weights in blocks of 32: q8_0 for kI8, q4_1 for kI4. kNone when it cannot be one:
/// then nothing was added; the reason is empty for a Gather that has no table of floats.
ValueId AddWeightOnly(Rewriter& r, NodeId id, DType weights, std::string* reason);

}  // namespace tenon::passes

#endif  // TENON_PASSES_WEIGHT_ONLY_H_
