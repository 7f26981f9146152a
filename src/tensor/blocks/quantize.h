// Numbers to blocks of 32, for models whose weights alone are rounded.
#ifndef TENON_TENSOR_BLOCKS_QUANTIZE_H_
#define TENON_TENSOR_BLOCKS_QUANTIZE_H_

#include <cstdint>

namespace tenon {

/// Into a block of q8_0 (34 bytes): a scale in f16, the largest magnitude becomes 127.
void QuantizeQ8_0(const float* x, uint8_t* block);

/// Into a block of q4_1 (20 bytes): scale and minimum in f16, fitted to the 16 steps by least squares.
void QuantizeQ4_1(const float* x, uint8_t* block);

}  // namespace tenon

#endif  // TENON_TENSOR_BLOCKS_QUANTIZE_H_
