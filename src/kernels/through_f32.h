// Rows that serve f16 and bf16 by the f32 rows of the same operator: tensors are widened into scratch and the results rounded
// once. For operators whose own time is small; what matters has rows of its own.
#ifndef TENON_KERNELS_THROUGH_F32_H_
#define TENON_KERNELS_THROUGH_F32_H_

#include "kernels/kernel.h"

namespace tenon::kernels {

/// Some of the inputs are f16 or bf16, none is a sequence, and a row of the operator that is not the reference serves f32.
Refusal CanThroughF32(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeThroughF32(const Problem& problem);

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_THROUGH_F32_H_
