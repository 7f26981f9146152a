// The AVX-512 micro-kernels: panels of up to 64 columns, tiles of 6 rows (fewer loads per product than 14 x 32).
// GCC 12 takes the deliberately undefined operands inside its own AVX-512 header for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/gemm/act.h"
#include "kernels/gemm/tables.h"

namespace tenon::kernels::gemm {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_avx512.inl"
#include "kernels/gemm/micro.inl"
#include "kernels/gemm/activate.inl"
#include "kernels/gemm/pack.inl"
// clang-format on
}  // namespace

extern const MicroKernels kMicroAvx512 = {
    "avx512",
    Vec::kLanes,
    4,
    {0, 12, 10, 8, 6},
    {{},
     {nullptr, Micro<1, 1>, Micro<2, 1>, Micro<3, 1>, Micro<4, 1>, Micro<5, 1>, Micro<6, 1>, Micro<7, 1>, Micro<8, 1>,
      Micro<9, 1>, Micro<10, 1>, Micro<11, 1>, Micro<12, 1>},
     {nullptr, Micro<1, 2>, Micro<2, 2>, Micro<3, 2>, Micro<4, 2>, Micro<5, 2>, Micro<6, 2>, Micro<7, 2>, Micro<8, 2>,
      Micro<9, 2>, Micro<10, 2>},
     {nullptr, Micro<1, 3>, Micro<2, 3>, Micro<3, 3>, Micro<4, 3>, Micro<5, 3>, Micro<6, 3>, Micro<7, 3>, Micro<8, 3>},
     {nullptr, Micro<1, 4>, Micro<2, 4>, Micro<3, 4>, Micro<4, 4>, Micro<5, 4>, Micro<6, 4>}},
    Activate,
    PackPanel,
    PackColumns,
};

}  // namespace tenon::kernels::gemm
