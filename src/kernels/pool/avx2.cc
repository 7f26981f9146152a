// f32 pooling for AVX2.
#include "kernels/pool/body.h"

namespace tenon::kernels::pool {
const PoolInner kPoolAvx2 = {Accumulate, Slide, Channels};
}  // namespace tenon::kernels::pool
