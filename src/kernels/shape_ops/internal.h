// Makers of the rows of this family.
#ifndef TENON_KERNELS_SHAPE_OPS_INTERNAL_H_
#define TENON_KERNELS_SHAPE_OPS_INTERNAL_H_

#include "kernels/shape_ops/shape_ops.h"

namespace tenon::kernels::shape_ops {

Result<std::unique_ptr<Kernel>> MakeShape(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeSize(const Problem& problem);

}  // namespace tenon::kernels::shape_ops

#endif  // TENON_KERNELS_SHAPE_OPS_INTERNAL_H_
