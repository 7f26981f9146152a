// Sequences and optionals. A tensor inside a sequence owns its bytes; sequences share tensors, which never change. An optional
// is a sequence of at most one tensor, so an optional of a sequence is that sequence: an empty one counts as having no element.
#ifndef TENON_KERNELS_SEQUENCE_SEQUENCE_H_
#define TENON_KERNELS_SEQUENCE_SEQUENCE_H_

#include "kernels/kernel.h"

namespace tenon::kernels::sequence {

std::span<const OpKernels> Operators();

Status InferSequenceEmpty(const ShapeArgs& args);
Status InferSequenceConstruct(const ShapeArgs& args);
/// SequenceInsert (position in [-n, n], default n) and SequenceErase (position in [-n, n), default the last).
Status InferSequenceEdit(const ShapeArgs& args);
Status InferSequenceAt(const ShapeArgs& args);
Status InferSequenceLength(const ShapeArgs& args);
/// Parts of the sizes in input 1 (a number: all of that size, the last one smaller), default 1 with attribute keepdims.
Status InferSplitToSequence(const ShapeArgs& args);
/// Attributes axis, new_axis (stack instead of concatenate).
Status InferConcatFromSequence(const ShapeArgs& args);
Status InferOptional(const ShapeArgs& args);
Status InferOptionalGetElement(const ShapeArgs& args);
Status InferOptionalHasElement(const ShapeArgs& args);

}  // namespace tenon::kernels::sequence

#endif  // TENON_KERNELS_SEQUENCE_SEQUENCE_H_
