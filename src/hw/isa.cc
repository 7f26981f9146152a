#include "hw/isa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace tenon::hw {
namespace {

struct Level {
  std::string_view name;
  IsaMask mask;
};

constexpr std::array kLevels = {
    Level{"baseline", kBaseline},
    Level{"avx2", kAvx2},
    Level{"avx512", kAvx2 | kAvx512},
    Level{"avx512vnni", kAvx2 | kAvx512 | kAvx512Vnni},
    Level{"avx512bf16", kAvx2 | kAvx512 | kAvx512Vnni | kAvx512Bf16},
    Level{"avx512fp16", kAvx2 | kAvx512 | kAvx512Vnni | kAvx512Bf16 | kAvx512Fp16},
    Level{"amx", kAvx2 | kAvx512 | kAvx512Vnni | kAvx512Bf16 | kAvx512Fp16 | kAmx},
    Level{"native", ~IsaMask{0}},
};

#if defined(__x86_64__)
// Linux hands out the AMX tile state on request only (arch_prctl ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
bool RequestAmx() {
  constexpr int kArchReqXcompPerm = 0x1023;
  constexpr int kXfeatureXtiledata = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}
#endif

IsaMask Detect() {
  IsaMask mask = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
      __builtin_cpu_supports("f16c")) {
    mask |= kAvx2;
  }
  if ((mask & kAvx2) != 0 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    mask |= kAvx512;
    if (__builtin_cpu_supports("avx512vnni")) mask |= kAvx512Vnni;
    if (__builtin_cpu_supports("avx512bf16")) mask |= kAvx512Bf16;
    if (__builtin_cpu_supports("avx512fp16")) mask |= kAvx512Fp16;
    if (__builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-int8") && __builtin_cpu_supports("amx-bf16") &&
        RequestAmx()) {
      mask |= kAmx;
    }
  }
  if ((mask & kAvx2) != 0 && __builtin_cpu_supports("avxvnni")) mask |= kAvxVnni;
#elif defined(__aarch64__)
  mask |= kNeon;
#endif
  return mask;
}

}  // namespace

IsaMask DetectIsa() {
  static const IsaMask mask = Detect();
  return mask;
}

Result<IsaMask> IsaFromLevel(std::string_view name) {
  std::string allowed;
  for (const Level& level : kLevels) {
    if (level.name == name) return level.mask;
    allowed += (allowed.empty() ? "" : ", ") + std::string(level.name);
  }
  return Usage("unknown instruction set '{}'; TENON_ISA; allowed: {}", name, allowed);
}

Result<IsaMask> ActiveIsa() {
  const char* wish = std::getenv("TENON_ISA");
  if (wish == nullptr || *wish == '\0') return DetectIsa();
  TENON_ASSIGN_OR_RETURN(const IsaMask mask, IsaFromLevel(wish));
  if (mask == ~IsaMask{0}) return DetectIsa();
  if (!Covers(DetectIsa(), mask)) {
    return Unsupported("instruction set '{}' asked for; TENON_ISA; this CPU has {}", wish, IsaToString(DetectIsa()));
  }
  return mask;
}

std::string IsaToString(IsaMask mask) {
  struct Bit {
    IsaMask bit;
    std::string_view name;
  };
  constexpr std::array kBits = {Bit{kAvx2, "avx2"},         Bit{kAvx512, "avx512"},   Bit{kAvx512Vnni, "vnni"},
                                Bit{kAvx512Bf16, "bf16"},   Bit{kAvx512Fp16, "fp16"}, Bit{kAmx, "amx"},
                                Bit{kAvxVnni, "avxvnni"},   Bit{kNeon, "neon"},       Bit{kNeonDot, "dot"},
                                Bit{kNeonBf16, "neonbf16"}, Bit{kNeonI8mm, "i8mm"}};
  std::string out;
  for (const Bit& b : kBits) {
    if ((mask & b.bit) != 0) out += (out.empty() ? "" : "+") + std::string(b.name);
  }
  return out.empty() ? "baseline" : out;
}

}  // namespace tenon::hw
