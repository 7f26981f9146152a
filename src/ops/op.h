// What the graph side knows of operators: traits for passes, and inference of types and shapes over a graph. The shape rules
// themselves live with the kernel families, which need them at run time too.
#ifndef TENON_OPS_OP_H_
#define TENON_OPS_OP_H_

#include <string_view>

#include "ir/graph.h"
#include "kernels/kernel.h"

namespace tenon::ops {

enum Trait : uint32_t {
  kNoTraits = 0,
  kElementwise = 1u << 0,    ///< output element depends on the input elements at the same (broadcast) position only
  kCommutative = 1u << 1,    ///< the first two inputs may be swapped
  kRandom = 1u << 2,         ///< two runs may differ: never folded, merged or removed as equal
  kControlFlow = 1u << 3,    ///< has bodies; run by the executor
  kMonotonic = 1u << 4,      ///< commutes with max pooling and the like (Relu, Clip)
};

/// Traits of an operator; kNoTraits when it has none or is unknown. (ops/ops.inc)
uint32_t TraitsOf(std::string_view op);
inline bool HasTrait(std::string_view op, Trait t) {
  return (TraitsOf(op) & t) != 0;
}

/// True when Tenon can run `op` (a kernel or the executor has it).
bool IsSupported(std::string_view op);

/// Infers the outputs of one node from its inputs; keeps what the graph already knows where the rule knows less. Contradictions
/// between a declared and an inferred type or extent are kBadInput with the node named.
Status InferNode(ir::Graph& graph, ir::NodeId id);

/// All nodes in order, bodies included. Idempotent; run after import and by passes that changed shapes.
Status InferGraph(ir::Graph& graph);

/// The node's inputs as shape rules and kernels see them.
std::vector<kernels::ValueInfo> InputInfos(const ir::Graph& graph, const ir::Node& node, std::vector<View>* storage);

/// Whether some kernel row serves the operator with these inputs on `isa`: what a fusion asks before it fuses.
bool KernelExists(const ir::Graph& graph, std::string_view op, const Attrs& attrs, std::span<const ir::ValueId> inputs,
                  hw::IsaMask isa);

/// "node 'name' (Op)": how messages name a node.
std::string Describe(const ir::Node& node);

}  // namespace tenon::ops

#endif  // TENON_OPS_OP_H_
