// f32 reductions for AVX-512.
#include "kernels/reduce/body.h"

namespace tenon::kernels::reduce {
const ReduceInner kReduceAvx512 = {RunKind, ColumnsKind, ArgKind, ArgColumnsKind};
}  // namespace tenon::kernels::reduce
