// Operators that ask for shapes or make tensors from them.
#ifndef TENON_KERNELS_SHAPE_OPS_SHAPE_OPS_H_
#define TENON_KERNELS_SHAPE_OPS_SHAPE_OPS_H_

#include "kernels/kernel.h"

namespace tenon::kernels::shape_ops {

std::span<const OpKernels> Operators();

/// Extents [start, end) of the input, clamped to its rank; the elements are the input's symbols.
Status InferShape(const ShapeArgs& args);
Status InferSize(const ShapeArgs& args);

}  // namespace tenon::kernels::shape_ops

#endif  // TENON_KERNELS_SHAPE_OPS_SHAPE_OPS_H_
