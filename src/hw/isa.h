// Instruction sets as a bit mask, so that a kernel row can say what it needs and a caller can force less.
#ifndef TENON_HW_ISA_H_
#define TENON_HW_ISA_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon::hw {

using IsaMask = uint32_t;
inline constexpr IsaMask kBaseline = 0;               ///< x86-64 (SSE2) or plain AArch64
inline constexpr IsaMask kAvx2 = 1u << 0;             ///< AVX2 + FMA + F16C + BMI2
inline constexpr IsaMask kAvx512 = 1u << 1;           ///< AVX-512 F, CD, BW, DQ, VL
inline constexpr IsaMask kAvx512Vnni = 1u << 2;
inline constexpr IsaMask kAvx512Bf16 = 1u << 3;
inline constexpr IsaMask kAvx512Fp16 = 1u << 4;
inline constexpr IsaMask kAmx = 1u << 5;              ///< AMX tile + int8 + bf16, with the kernel's permission granted
inline constexpr IsaMask kAvxVnni = 1u << 6;
inline constexpr IsaMask kNeon = 1u << 16;
inline constexpr IsaMask kNeonDot = 1u << 17;
inline constexpr IsaMask kNeonBf16 = 1u << 18;
inline constexpr IsaMask kNeonI8mm = 1u << 19;

/// What this CPU and its operating system allow. Asks once for permission to use AMX tiles.
IsaMask DetectIsa();

/// Level names, each including the ones before it: baseline, avx2, avx512, avx512vnni, avx512bf16, avx512fp16, amx, native.
/// kUsage when the name is unknown.
Result<IsaMask> IsaFromLevel(std::string_view name);

/// Detected ISA cut down by the knob TENON_ISA. Asking for more than the CPU has is an error.
Result<IsaMask> ActiveIsa();

/// "avx512+vnni+bf16+fp16+amx"; "baseline" for none.
std::string IsaToString(IsaMask mask);

inline bool Covers(IsaMask have, IsaMask need) {
  return (have & need) == need;
}

}  // namespace tenon::hw

#endif  // TENON_HW_ISA_H_
