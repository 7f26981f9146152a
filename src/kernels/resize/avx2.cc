// f32 resizing for AVX2.
#include "kernels/resize/body.h"

namespace tenon::kernels::resize {
const ResizeInner kResizeAvx2 = {Blend, GatherRow, Sample, Pick, Repeat};
}  // namespace tenon::kernels::resize
