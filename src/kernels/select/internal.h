// Makers of the rows of this family.
#ifndef TENON_KERNELS_SELECT_INTERNAL_H_
#define TENON_KERNELS_SELECT_INTERNAL_H_

#include "kernels/select/select.h"

namespace tenon::kernels::select {

Result<std::unique_ptr<Kernel>> MakeTopK(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeNonZero(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeCompress(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeUnique(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeNonMaxSuppression(const Problem& problem);

}  // namespace tenon::kernels::select

#endif  // TENON_KERNELS_SELECT_INTERNAL_H_
