// Replaces a node with bodies by the contents of one of them.
#ifndef TENON_PASSES_INLINE_BODY_H_
#define TENON_PASSES_INLINE_BODY_H_

#include <vector>

#include "passes/rewriter.h"

namespace tenon::passes {

/// Copies body `index` of node `id` into the graph with the body's inputs bound to `arguments` (same order, same number or
/// more), lets its outputs take over the uses of the node's outputs, and removes the node.
void InlineBody(Rewriter& r, NodeId id, size_t index, const std::vector<ValueId>& arguments);

}  // namespace tenon::passes

#endif  // TENON_PASSES_INLINE_BODY_H_
