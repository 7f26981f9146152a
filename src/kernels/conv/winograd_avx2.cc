// Winograd transforms for Avx2.
#include <immintrin.h>

#include "kernels/conv/winograd_tile.h"

namespace tenon::kernels::conv {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_avx2.inl"
#include "kernels/conv/winograd.inl"
// clang-format on
}  // namespace

extern const WinogradKernels kWinogradAvx2 = {Input, Output};

}  // namespace tenon::kernels::conv
