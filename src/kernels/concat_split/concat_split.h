// Concat and Split along one axis, for every element type.
#ifndef TENON_KERNELS_CONCAT_SPLIT_CONCAT_SPLIT_H_
#define TENON_KERNELS_CONCAT_SPLIT_CONCAT_SPLIT_H_

#include "kernels/kernel.h"

namespace tenon::kernels::concat_split {

std::span<const OpKernels> Operators();

/// Attribute `axis`; all inputs agree in type, rank and the other extents.
Status InferConcat(const ShapeArgs& args);
/// Sizes from input 1, else `num_outputs` (or the number of outputs) parts of ceil(extent / parts), the last one smaller.
Status InferSplit(const ShapeArgs& args);

}  // namespace tenon::kernels::concat_split

#endif  // TENON_KERNELS_CONCAT_SPLIT_CONCAT_SPLIT_H_
