// Reshape, Flatten, Squeeze, Unsqueeze, BitCast: the bytes of input 0 under another shape or type. The runtime aliases the
// output; the one row copies, for constant folding.
#ifndef TENON_KERNELS_VIEWS_VIEWS_H_
#define TENON_KERNELS_VIEWS_VIEWS_H_

#include "kernels/kernel.h"

namespace tenon::kernels::views {

std::span<const OpKernels> Operators();

/// Attribute `allowzero`: 0 in the target is an extent of zero instead of "as in the input". One -1 is inferred, through
/// Dim::ExactDiv where the extents are symbols.
Status InferReshape(const ShapeArgs& args);
/// Attribute `to`: an element type of the same width.
Status InferBitCast(const ShapeArgs& args);
Status InferFlatten(const ShapeArgs& args);
Status InferSqueeze(const ShapeArgs& args);
Status InferUnsqueeze(const ShapeArgs& args);

}  // namespace tenon::kernels::views

#endif  // TENON_KERNELS_VIEWS_VIEWS_H_
