// f32 pooling for AVX2.
#include "kernels/pool/body.h"

namespace tenon::kernels::pool {
const PoolInner kPoolAvx2 = {Accumulate, Slide, Channels<float>, Channels<uint16_t>};
}  // namespace tenon::kernels::pool
