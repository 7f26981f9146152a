#if defined(__x86_64__)
#include <immintrin.h>

#include "hw/peaks_probes.h"

namespace tenon::hw::probes {

void F32_avx512(int64_t rounds) {
#define INIT(i) __m512 a##i = _mm512_set1_ps(1);
#define STEP(i)                       \
  a##i = _mm512_fmadd_ps(a##i, x, y); \
  asm volatile("" : "+v"(a##i));
  PROBE_20(INIT)
  const __m512 x = _mm512_set1_ps(0.999F), y = _mm512_set1_ps(0.001F);
  for (int64_t r = 0; r < rounds; ++r) {
    PROBE_20(STEP)
  }
#undef INIT
#undef STEP
}

void Read_avx512(const char* data, int64_t bytes) {
  __m512i a = _mm512_setzero_si512(), b = _mm512_setzero_si512(), c = _mm512_setzero_si512(), d = _mm512_setzero_si512();
  for (int64_t i = 0; i < bytes; i += 256) {
    a = _mm512_or_si512(a, _mm512_load_si512(data + i + 0));
    b = _mm512_or_si512(b, _mm512_load_si512(data + i + 64));
    c = _mm512_or_si512(c, _mm512_load_si512(data + i + 128));
    d = _mm512_or_si512(d, _mm512_load_si512(data + i + 192));
  }
  asm volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d));
}

}  // namespace tenon::hw::probes
#endif
