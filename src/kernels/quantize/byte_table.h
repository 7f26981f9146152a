// ByteTable (internal): y[i] = table[x[i]], x uint8 or int8 (read as its bits), table of 256 bytes whose type is that of y. What
// a chain of functions between two quantisers of one value comes to.
#ifndef TENON_KERNELS_QUANTIZE_BYTE_TABLE_H_
#define TENON_KERNELS_QUANTIZE_BYTE_TABLE_H_

#include <cstdint>

namespace tenon::kernels::quantize {

/// For CPUs with AVX-512 VBMI, which HasVbmi tells.
bool HasVbmi();
void LookUpAvx512Vbmi(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y);

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_BYTE_TABLE_H_
