// Operators that ask for shapes or make tensors from them.
#ifndef TENON_KERNELS_SHAPE_OPS_SHAPE_OPS_H_
#define TENON_KERNELS_SHAPE_OPS_SHAPE_OPS_H_

#include "kernels/kernel.h"

namespace tenon::kernels::shape_ops {

std::span<const OpKernels> Operators();

/// Extents [start, end) of the input, clamped to its rank; the elements are the input's symbols.
Status InferShape(const ShapeArgs& args);
Status InferSize(const ShapeArgs& args);
/// Attribute `value` (one element, default float 0) in the shape that the input lists.
Status InferConstantOfShape(const ShapeArgs& args);
/// start, limit, delta: max(0, ceil((limit - start) / delta)) elements start + i * delta.
Status InferRange(const ShapeArgs& args);
/// Input broadcast with the listed shape, both ways.
Status InferExpand(const ShapeArgs& args);
Status InferTile(const ShapeArgs& args);
/// Attributes dtype (default: the input's), k.
Status InferEyeLike(const ShapeArgs& args);
/// indices, depth, values [off, on]; an index outside [-depth, depth) gives off everywhere, as ONNX says.
Status InferOneHot(const ShapeArgs& args);
Status InferTrilu(const ShapeArgs& args);
/// CumSum and CumProd: x, axis; attributes exclusive, reverse. f16 and bf16 accumulate in f32.
Status InferCumulative(const ShapeArgs& args);
Status InferReverseSequence(const ShapeArgs& args);
/// past_cache, update, write_indices (default 0): the cache with `update` written along `axis` at an index a batch entry.
Status InferTensorScatter(const ShapeArgs& args);

}  // namespace tenon::kernels::shape_ops

#endif  // TENON_KERNELS_SHAPE_OPS_SHAPE_OPS_H_
