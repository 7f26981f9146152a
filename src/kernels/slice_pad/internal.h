// Makers of the rows of this family, one file per operator.
#ifndef TENON_KERNELS_SLICE_PAD_INTERNAL_H_
#define TENON_KERNELS_SLICE_PAD_INTERNAL_H_

#include "kernels/slice_pad/slice_pad.h"

namespace tenon::kernels::slice_pad {

Result<std::unique_ptr<Kernel>> MakePad(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeSlice(const Problem& problem);

}  // namespace tenon::kernels::slice_pad

#endif  // TENON_KERNELS_SLICE_PAD_INTERNAL_H_
