#if defined(__x86_64__)
#include <immintrin.h>

#include "hw/peaks_probes.h"

namespace tenon::hw::probes {

void Bf16_avx512bf16(int64_t rounds) {
#define INIT(i) __m512 a##i = _mm512_setzero_ps();
#define STEP(i)                        \
  a##i = _mm512_dpbf16_ps(a##i, x, x); \
  asm volatile("" : "+v"(a##i));
  PROBE_20(INIT)
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.5F), _mm512_set1_ps(-0.5F));
  for (int64_t r = 0; r < rounds; ++r) {
    PROBE_20(STEP)
  }
#undef INIT
#undef STEP
}

}  // namespace tenon::hw::probes
#endif
