#if defined(__x86_64__)
#include <immintrin.h>

#include "hw/peaks_probes.h"

namespace tenon::hw::probes {

void I8_avx512vnni(int64_t rounds) {
#define INIT(i) __m512i a##i = _mm512_setzero_si512();
#define STEP(i)                           \
  a##i = _mm512_dpbusd_epi32(a##i, x, y); \
  asm volatile("" : "+v"(a##i));
  PROBE_20(INIT)
  const __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2);
  for (int64_t r = 0; r < rounds; ++r) {
    PROBE_20(STEP)
  }
#undef INIT
#undef STEP
}

}  // namespace tenon::hw::probes
#endif
