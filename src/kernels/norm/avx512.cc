// f32 normalisations for AVX-512.
#include "kernels/norm/body.h"

namespace tenon::kernels::norm {
const NormInner kNormAvx512 = {LayerRowF32, Statistics, Affine, AffineEach, Lrn075};
}  // namespace tenon::kernels::norm
