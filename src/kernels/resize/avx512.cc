// f32 resizing for AVX-512.
#include "kernels/resize/body.h"

namespace tenon::kernels::resize {
const ResizeInner kResizeAvx512 = {Blend, GatherRow, Sample, Pick, Repeat};
}  // namespace tenon::kernels::resize
