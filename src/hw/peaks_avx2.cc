#if defined(__x86_64__)
#include <immintrin.h>

#include "hw/peaks_probes.h"

namespace tenon::hw::probes {

void F32_avx2(int64_t rounds) {
#define INIT(i) __m256 a##i = _mm256_set1_ps(1);
#define STEP(i)                       \
  a##i = _mm256_fmadd_ps(a##i, x, y); \
  asm volatile("" : "+x"(a##i));
  PROBE_10(INIT)
  const __m256 x = _mm256_set1_ps(0.999F), y = _mm256_set1_ps(0.001F);
  for (int64_t r = 0; r < rounds; ++r) {
    PROBE_10(STEP)
  }
#undef INIT
#undef STEP
}

void I8_avx2(int64_t rounds) {
#define INIT(i) __m256i a##i = _mm256_setzero_si256();
#define STEP(i)                     \
  p = _mm256_madd_epi16(x, y);      \
  asm volatile("" : "+x"(p));       \
  a##i = _mm256_add_epi32(a##i, p); \
  asm volatile("" : "+x"(a##i));
  PROBE_10(INIT)
  const __m256i x = _mm256_set1_epi16(3), y = _mm256_set1_epi16(-2);
  __m256i p;
  for (int64_t r = 0; r < rounds; ++r) {
    PROBE_10(STEP)
  }
#undef INIT
#undef STEP
}

__attribute__((target("avxvnni"))) void I8_avxvnni(int64_t rounds) {
#define INIT(i) __m256i a##i = _mm256_setzero_si256();
#define STEP(i)                               \
  a##i = _mm256_dpbusd_avx_epi32(a##i, x, y); \
  asm volatile("" : "+x"(a##i));
  PROBE_10(INIT)
  const __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-2);
  for (int64_t r = 0; r < rounds; ++r) {
    PROBE_10(STEP)
  }
#undef INIT
#undef STEP
}

void Read_avx2(const char* data, int64_t bytes) {
  __m256i a = _mm256_setzero_si256(), b = _mm256_setzero_si256(), c = _mm256_setzero_si256(), d = _mm256_setzero_si256();
  for (int64_t i = 0; i < bytes; i += 128) {
    a = _mm256_or_si256(a, _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i + 0)));
    b = _mm256_or_si256(b, _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i + 32)));
    c = _mm256_or_si256(c, _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i + 64)));
    d = _mm256_or_si256(d, _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i + 96)));
  }
  asm volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d));
}

}  // namespace tenon::hw::probes
#endif
