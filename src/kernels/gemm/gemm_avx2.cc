// The AVX2 micro-kernels: panels of up to 24 columns, tiles of 4 rows; 16 columns by 6 rows where that divides better.
#include <immintrin.h>

#include "kernels/gemm/act.h"
#include "kernels/gemm/tables.h"

namespace tenon::kernels::gemm {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_avx2.inl"
#include "kernels/gemm/micro.inl"
#include "kernels/gemm/activate.inl"
#include "kernels/gemm/pack.inl"
// clang-format on
}  // namespace

extern const MicroKernels kMicroAvx2 = {
    "avx2",
    Vec::kLanes,
    3,
    {0, 8, 6, 4, 0},
    {{},
     {nullptr, Micro<1, 1>, Micro<2, 1>, Micro<3, 1>, Micro<4, 1>, Micro<5, 1>, Micro<6, 1>, Micro<7, 1>, Micro<8, 1>},
     {nullptr, Micro<1, 2>, Micro<2, 2>, Micro<3, 2>, Micro<4, 2>, Micro<5, 2>, Micro<6, 2>},
     {nullptr, Micro<1, 3>, Micro<2, 3>, Micro<3, 3>, Micro<4, 3>},
     {}},
    Activate,
    PackPanel,
    PackColumns,
};

}  // namespace tenon::kernels::gemm
