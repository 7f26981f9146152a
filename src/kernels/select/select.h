// Operators that choose: TopK, NonZero, Compress, Unique, NonMaxSuppression. The extents of all but TopK depend on data: their
// kernels ask the run's allocator for their outputs and keep working lists of the size of their input on the heap.
#ifndef TENON_KERNELS_SELECT_SELECT_H_
#define TENON_KERNELS_SELECT_SELECT_H_

#include "kernels/kernel.h"

namespace tenon::kernels::select {

std::span<const OpKernels> Operators();

/// x, k: the k largest (attribute largest = 1) or smallest along `axis`, best first, ties by lower index; NaN counts as larger
/// than every number. Outputs values and int64 indices.
Status InferTopK(const ShapeArgs& args);
/// [rank, count] indices of the elements that are not zero.
Status InferNonZero(const ShapeArgs& args);
/// Slices along `axis` (or elements, without the attribute) whose condition holds.
Status InferCompress(const ShapeArgs& args);
/// Outputs Y, indices of first occurrences, inverse indices, counts; attributes axis, sorted.
Status InferUnique(const ShapeArgs& args);
/// boxes [batch, n, 4], scores [batch, classes, n] to [selected, 3] (batch, class, box), by descending score in each class;
/// a box goes when its overlap with a better one is greater than iou_threshold. Attribute center_point_box.
Status InferNonMaxSuppression(const ShapeArgs& args);

}  // namespace tenon::kernels::select

#endif  // TENON_KERNELS_SELECT_SELECT_H_
