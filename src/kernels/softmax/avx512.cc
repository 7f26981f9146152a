// f32 softmax for AVX-512.
#include "kernels/softmax/body.h"

namespace tenon::kernels::softmax {
const SoftmaxInner kSoftmaxAvx512 = {Rows, Columns};
}  // namespace tenon::kernels::softmax
