// Shape rules of the reductions.
#ifndef TENON_KERNELS_REDUCE_SHAPE_H_
#define TENON_KERNELS_REDUCE_SHAPE_H_

#include "kernels/reduce/reduce.h"

namespace tenon::kernels::reduce {

/// Known elements of a shape vector are reduced too, for Sum, Prod, Max and Min.
Status InferReduce(Kind kind, const ShapeArgs& args);
Status InferArg(const ShapeArgs& args);

}  // namespace tenon::kernels::reduce

#endif  // TENON_KERNELS_REDUCE_SHAPE_H_
