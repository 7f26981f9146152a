// Types of the keys and values that a cache holds. Light, for the ISA files.
#ifndef TENON_KERNELS_KV_TYPE_H_
#define TENON_KERNELS_KV_TYPE_H_

#include <cstdint>

namespace tenon::kernels {

/// kQ8_0 as in ggml: blocks of 32 int8 of one token and one head, each block with an f16 that they are multiples of.
enum class KvType : uint8_t { kF16, kBf16, kF32, kQ8_0 };
inline constexpr int kKvTypes = 4;
/// Elements of a block of kQ8_0.
inline constexpr int64_t kQ8Block = 32;

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_KV_TYPE_H_
