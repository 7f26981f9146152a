// Makers of the rows of DepthToSpace, SpaceToDepth and Col2Im.
#ifndef TENON_KERNELS_TRANSPOSE_INTERNAL_H_
#define TENON_KERNELS_TRANSPOSE_INTERNAL_H_

#include "kernels/transpose/transpose.h"

namespace tenon::kernels::transpose {

Result<std::unique_ptr<Kernel>> MakeDepthSpace(const Problem& problem);

}  // namespace tenon::kernels::transpose

#endif  // TENON_KERNELS_TRANSPOSE_INTERNAL_H_
