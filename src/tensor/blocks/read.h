// Little-endian numbers inside blocks.
#ifndef TENON_TENSOR_BLOCKS_READ_H_
#define TENON_TENSOR_BLOCKS_READ_H_

#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace tenon::blocks {

inline uint16_t U16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | p[1] << 8);
}
inline uint32_t U32(const uint8_t* p) {
  return static_cast<uint32_t>(U16(p)) | static_cast<uint32_t>(U16(p + 2)) << 16;
}
inline float F16(const uint8_t* p) {
  return F16BitsToF32(U16(p));
}

}  // namespace tenon::blocks

#endif  // TENON_TENSOR_BLOCKS_READ_H_
