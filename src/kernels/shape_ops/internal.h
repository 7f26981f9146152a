// Makers of the rows of this family.
#ifndef TENON_KERNELS_SHAPE_OPS_INTERNAL_H_
#define TENON_KERNELS_SHAPE_OPS_INTERNAL_H_

#include "kernels/shape_ops/shape_ops.h"

namespace tenon::kernels::shape_ops {

Result<std::unique_ptr<Kernel>> MakeConstantOfShape(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeCumulative(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeExpand(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeEyeLike(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeOneHot(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeRange(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeReverseSequence(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeShape(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeSize(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeTensorScatter(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeTile(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeTrilu(const Problem& problem);

}  // namespace tenon::kernels::shape_ops

#endif  // TENON_KERNELS_SHAPE_OPS_INTERNAL_H_
