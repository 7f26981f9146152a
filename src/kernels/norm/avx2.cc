// f32 normalisations for AVX2.
#include "kernels/norm/body.h"

namespace tenon::kernels::norm {
const NormInner kNormAvx2 = {LayerRowF32, Statistics, Affine, AffineEach, Lrn075};
}  // namespace tenon::kernels::norm
