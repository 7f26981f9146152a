// Winograd transforms for Avx512.
// GCC 12 takes the deliberately undefined operands inside its own AVX-512 header for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/conv/winograd_tile.h"

namespace tenon::kernels::conv {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_avx512.inl"
#include "kernels/conv/winograd.inl"
// clang-format on
}  // namespace

extern const WinogradKernels kWinogradAvx512 = {Input, Output};

}  // namespace tenon::kernels::conv
