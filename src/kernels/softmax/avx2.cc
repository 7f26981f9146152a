// f32 softmax for AVX2.
#include "kernels/softmax/body.h"

namespace tenon::kernels::softmax {
const SoftmaxInner kSoftmaxAvx2 = {Rows, Columns};
}  // namespace tenon::kernels::softmax
