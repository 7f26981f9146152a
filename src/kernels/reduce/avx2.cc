// f32 reductions for AVX2.
#include "kernels/reduce/body.h"

namespace tenon::kernels::reduce {
const ReduceInner kReduceAvx2 = {RunKind, ColumnsKind, ArgKind, ArgColumnsKind};
}  // namespace tenon::kernels::reduce
