// The formats whose values come from tables of 4 or 8 numbers. All have 16 values or fewer, signs included.
#ifndef TENON_TENSOR_BLOCKS_IQ_H_
#define TENON_TENSOR_BLOCKS_IQ_H_

#include <cstdint>

namespace tenon::blocks {

/// 32 elements: scale[half of them] * values[code], where `values` are those of the format.
struct TableCodes {
  uint8_t codes[32];   ///< below 16
  float scale[2];
};

inline constexpr int8_t kIq1Values[16] = {-7, 1, 9, 0, 0, 0, 0, 0, -9, -1, 7};
inline constexpr int8_t kIq2Values[16] = {0x08, 0x19, 0x2b, 0, 0, 0, 0, 0, -0x08, -0x19, -0x2b};
inline constexpr int8_t kIq3XxsValues[16] = {0x04,  0x0c,  0x14,  0x1c,  0x24,  0x2c,  0x34,  0x3e,
                                             -0x04, -0x0c, -0x14, -0x1c, -0x24, -0x2c, -0x34, -0x3e};
inline constexpr int8_t kIq3SValues[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};

/// Elements [32 i, 32 i + 32) of a block of 256.
void Iq1S(const uint8_t* block, int i, TableCodes* to);
void Iq1M(const uint8_t* block, int i, TableCodes* to);
void Iq2Xxs(const uint8_t* block, int i, TableCodes* to);
void Iq2Xs(const uint8_t* block, int i, TableCodes* to);
void Iq2S(const uint8_t* block, int i, TableCodes* to);
void Iq3Xxs(const uint8_t* block, int i, TableCodes* to);
void Iq3S(const uint8_t* block, int i, TableCodes* to);

}  // namespace tenon::blocks

#endif  // TENON_TENSOR_BLOCKS_IQ_H_
