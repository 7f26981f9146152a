// The second input of Reshape for a wanted shape.
#ifndef TENON_PASSES_RESHAPE_TARGET_H_
#define TENON_PASSES_RESHAPE_TARGET_H_

#include <optional>
#include <vector>

#include "passes/rewriter.h"

namespace tenon::passes {

/// Elements for Reshape (allowzero = 0) that turn any tensor of shape `from` into `to`: numbers, 0 where an extent is copied from
/// the same place, and at most one -1. nullopt when more extents depend on symbols than that can say, or an extent may be 0.
std::optional<std::vector<int64_t>> ReshapeTarget(const SymShape& from, const SymShape& to);

/// x as a value of shape `to`: a Reshape node, or x itself when it has that shape. kNone when it cannot be said.
ValueId ReshapeTo(Rewriter& r, ValueId x, const SymShape& to, NodeId origin);

}  // namespace tenon::passes

#endif  // TENON_PASSES_RESHAPE_TARGET_H_
