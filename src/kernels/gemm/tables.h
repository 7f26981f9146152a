// The tables of micro-kernels, one per instruction set.
#ifndef TENON_KERNELS_GEMM_TABLES_H_
#define TENON_KERNELS_GEMM_TABLES_H_

#include "kernels/gemm/tile.h"

namespace tenon::kernels::gemm {

extern const MicroKernels kMicroPortable;
#if defined(__x86_64__)
extern const MicroKernels kMicroAvx2;
extern const MicroKernels kMicroAvx512;
#endif

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_TABLES_H_
