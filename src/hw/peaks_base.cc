// Probes without instruction sets of their own: vectors as the compiler has them.
#include "hw/peaks_probes.h"

namespace tenon::hw::probes {

namespace {
using F4 = float __attribute__((vector_size(16)));
using I2 = int64_t __attribute__((vector_size(16)));
}  // namespace

void F32_base(int64_t rounds) {
#define INIT(i) F4 a##i = {1, 1, 1, 1};
#define STEP(i)        \
  a##i = a##i * x + y; \
  asm volatile("" : "+x"(a##i));
  PROBE_10(INIT)
  const F4 x{0.999F, 0.999F, 0.999F, 0.999F}, y{0.001F, 0.001F, 0.001F, 0.001F};
  for (int64_t r = 0; r < rounds; ++r) {
    PROBE_10(STEP)
  }
#undef INIT
#undef STEP
}

void Read_base(const char* data, int64_t bytes) {
  I2 a = {}, b = {}, c = {}, d = {};
  for (int64_t i = 0; i < bytes; i += 64) {
    a = a | *reinterpret_cast<const I2*>(data + i + 0);
    b = b | *reinterpret_cast<const I2*>(data + i + 16);
    c = c | *reinterpret_cast<const I2*>(data + i + 32);
    d = d | *reinterpret_cast<const I2*>(data + i + 48);
  }
  asm volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d));
}

}  // namespace tenon::hw::probes
