// The tables of bf16 micro-kernels, one per instruction set.
#ifndef TENON_KERNELS_GEMM_BF16_TABLES_H_
#define TENON_KERNELS_GEMM_BF16_TABLES_H_

#include "kernels/gemm/bf16_tile.h"

namespace tenon::kernels::gemm {

extern const Bf16Kernels kBf16Portable;
#if defined(__x86_64__)
extern const Bf16Kernels kBf16Avx2;
extern const Bf16Kernels kBf16Avx512;
extern const Bf16Kernels kBf16Avx512Bf16;
extern const Bf16Kernels kBf16Amx;
#endif

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_BF16_TABLES_H_
