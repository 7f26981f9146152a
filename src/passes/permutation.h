// Transposes as passes see them.
#ifndef TENON_PASSES_PERMUTATION_H_
#define TENON_PASSES_PERMUTATION_H_

#include <optional>
#include <vector>

#include "passes/rewriter.h"

namespace tenon::passes {

/// The permutation of a Transpose node, also where the attribute is left out (axes reversed). nullopt when the rank is unknown.
std::optional<std::vector<int64_t>> PermutationOf(const Rewriter& r, NodeId id);

/// Transpose(x); kNone when inference refuses.
ValueId AddTranspose(Rewriter& r, ValueId x, const std::vector<int64_t>& perm, NodeId origin);

}  // namespace tenon::passes

#endif  // TENON_PASSES_PERMUTATION_H_
