// f32 attention for AVX-512.
#include "kernels/attention/body.h"

namespace tenon::kernels::attention {
const AttentionInner kAttentionAvx512 = {Scratch, Pack, Block, Few, Softmax};
}  // namespace tenon::kernels::attention
