// f32 pooling for AVX-512.
#include "kernels/pool/body.h"

namespace tenon::kernels::pool {
const PoolInner kPoolAvx512 = {Accumulate, Slide, Channels};
}  // namespace tenon::kernels::pool
