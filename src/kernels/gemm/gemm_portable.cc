// The micro-kernels of any machine: four lanes of the compiler's vector extension.
#include "kernels/gemm/act.h"
#include "kernels/gemm/tables.h"

namespace tenon::kernels::gemm {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_portable.inl"
#include "kernels/gemm/micro.inl"
#include "kernels/gemm/activate.inl"
#include "kernels/gemm/pack.inl"
// clang-format on
}  // namespace

extern const MicroKernels kMicroPortable = {
    "portable",
    Vec::kLanes,
    2,
    {0, 4, 4, 0, 0},
    {{},
     {nullptr, Micro<1, 1>, Micro<2, 1>, Micro<3, 1>, Micro<4, 1>},
     {nullptr, Micro<1, 2>, Micro<2, 2>, Micro<3, 2>, Micro<4, 2>},
     {},
     {}},
    Activate,
    PackPanel,
    PackColumns,
};

}  // namespace tenon::kernels::gemm
