// The formats whose values come from tables of 4 or 8 numbers.
#ifndef TENON_TENSOR_BLOCKS_IQ_H_
#define TENON_TENSOR_BLOCKS_IQ_H_

#include <cstdint>

namespace tenon::blocks {

void Iq1S(const uint8_t* block, float* out);
void Iq1M(const uint8_t* block, float* out);
void Iq2Xxs(const uint8_t* block, float* out);
void Iq2Xs(const uint8_t* block, float* out);
void Iq2S(const uint8_t* block, float* out);
void Iq3Xxs(const uint8_t* block, float* out);
void Iq3S(const uint8_t* block, float* out);

}  // namespace tenon::blocks

#endif  // TENON_TENSOR_BLOCKS_IQ_H_
