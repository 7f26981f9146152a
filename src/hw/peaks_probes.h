// Loops that do nothing but arithmetic, or nothing but reading, for peaks.cc. Each does `rounds` rounds.
#ifndef TENON_HW_PEAKS_PROBES_H_
#define TENON_HW_PEAKS_PROBES_H_

#include <cstdint>

/// Each accumulator is a variable of its own: GCC 12 keeps arrays of them in memory.
#define PROBE_10(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9)
#define PROBE_20(f) PROBE_10(f) f(10) f(11) f(12) f(13) f(14) f(15) f(16) f(17) f(18) f(19)

namespace tenon::hw::probes {

/// Operations of one round.
inline constexpr double kRoundF32Base = 10 * 4 * 2;
inline constexpr double kRoundF32Avx2 = 10 * 8 * 2;
inline constexpr double kRoundF32Avx512 = 20 * 16 * 2;
inline constexpr double kRoundI8Avx2 = 10 * 16 * 2;
inline constexpr double kRoundI8AvxVnni = 10 * 32 * 2;
inline constexpr double kRoundI8Vnni = 20 * 64 * 2;
inline constexpr double kRoundBf16 = 20 * 32 * 2;
inline constexpr double kRoundBf16Amx = 4 * 16 * 16 * 32 * 2;
inline constexpr double kRoundI8Amx = 4 * 16 * 16 * 64 * 2;

void F32_base(int64_t rounds);
/// Reads [data, data + bytes); a multiple of 512.
void Read_base(const char* data, int64_t bytes);

#if defined(__x86_64__)
void F32_avx2(int64_t rounds);
void I8_avx2(int64_t rounds);       ///< widened to int16, as kernels without VNNI have to
void I8_avxvnni(int64_t rounds);
void Read_avx2(const char* data, int64_t bytes);
void F32_avx512(int64_t rounds);
void Read_avx512(const char* data, int64_t bytes);
void I8_avx512vnni(int64_t rounds);
void Bf16_avx512bf16(int64_t rounds);
void Bf16_amx(int64_t rounds);
void I8_amx(int64_t rounds);
#endif

}  // namespace tenon::hw::probes

#endif  // TENON_HW_PEAKS_PROBES_H_
