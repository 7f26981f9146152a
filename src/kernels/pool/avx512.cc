// f32 pooling for AVX-512.
#include "kernels/pool/body.h"

namespace tenon::kernels::pool {
const PoolInner kPoolAvx512 = {Accumulate, Slide, Channels<float>, Channels<uint16_t>};
}  // namespace tenon::kernels::pool
