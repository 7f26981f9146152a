// Winograd transforms for any machine.
#include "kernels/conv/winograd_tile.h"

namespace tenon::kernels::conv {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_portable.inl"
#include "kernels/conv/winograd.inl"
// clang-format on
}  // namespace

extern const WinogradKernels kWinogradPortable = {Input, Output};

}  // namespace tenon::kernels::conv
