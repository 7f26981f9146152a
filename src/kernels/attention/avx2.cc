// f32 attention for AVX2.
#include "kernels/attention/body.h"

namespace tenon::kernels::attention {
const AttentionInner kAttentionAvx2 = {Scratch, Pack, Block, Few, Softmax};
}  // namespace tenon::kernels::attention
