// Shape arithmetic: the elements of small integer tensors, followed through elementwise operators with symbols.
#ifndef TENON_KERNELS_ELEMENTWISE_KNOWN_H_
#define TENON_KERNELS_ELEMENTWISE_KNOWN_H_

#include "kernels/elementwise/ops.h"
#include "kernels/kernel.h"

namespace tenon::kernels::elementwise {

/// Each sets args.out[0].elements where the inputs' elements are known and the output (its dtype and shape are set) is an integer
/// or bool tensor of rank <= 1 with at most 64 elements. An element that the symbols cannot express is Dim::Unknown(). Extents
/// count as non-negative: division rounds down, and a symbol never equals a negative number.
void PropagateUnary(const UnaryFn& fn, const ShapeArgs& args);
void PropagateBinary(BinaryOp op, const ShapeArgs& args);
void PropagateVariadic(BinaryOp op, const ShapeArgs& args);
void PropagateWhere(const ShapeArgs& args);
void PropagateCopy(const ShapeArgs& args);

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_KNOWN_H_
