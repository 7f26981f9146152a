// The tables of byte micro-kernels, one per instruction set.
#ifndef TENON_KERNELS_GEMM_INT8_TABLES_H_
#define TENON_KERNELS_GEMM_INT8_TABLES_H_

#include "kernels/gemm/int8_tile.h"

namespace tenon::kernels::gemm {

extern const Int8Kernels kInt8Portable;
#if defined(__x86_64__)
extern const Int8Kernels kInt8Avx2;
extern const Int8Kernels kInt8Avx512Vnni;
extern const Int8Kernels kInt8Amx;

/// What AMX shares with AVX-512.
void FinishInt8Avx512(const Int8Finish& f);
void ConvertInt8Avx512(const Int8Finish& f);
void RowSumsInt8Avx512Plain(const Int8Tile& t, bool is_signed, int32_t* sums);
#endif

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_INT8_TABLES_H_
