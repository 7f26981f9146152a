// Elementwise operators that fused operators (FusedConv, FusedMatMul) can apply to their result: the attributes of
// kernels/gemm/activation.h.
#ifndef TENON_PASSES_ACTIVATION_H_
#define TENON_PASSES_ACTIVATION_H_

#include <optional>
#include <string>
#include <vector>

#include "passes/rewriter.h"

namespace tenon::passes {

struct ActivationAttrs {
  std::string name;
  std::vector<float> params;
};

/// The node as an activation of its input 0; nullopt when it is none or has parameters that are not constant.
std::optional<ActivationAttrs> ActivationOf(const Rewriter& r, NodeId id);

/// Whether the fused operator's result is still bare: no activation and no affine map after it.
bool HasActivation(const Attrs& attrs);

/// Fuses what follows the fused operator `id` (the producer of the input of `reader`): an activation, or after one a scalar
/// multiplication or addition. True when `reader` was taken in.
bool FuseEpilogue(Rewriter& r, NodeId id, NodeId reader);

}  // namespace tenon::passes

#endif  // TENON_PASSES_ACTIVATION_H_
