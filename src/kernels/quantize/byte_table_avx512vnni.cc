// Table look-up with VPERMI2B: 128 entries an instruction. VBMI came with the second generation of VNNI, hence the check of its
// own.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/quantize/byte_table.h"

namespace tenon::kernels::quantize {

bool HasVbmi() {
  return __builtin_cpu_supports("avx512vbmi");
}

__attribute__((target("avx512vbmi"))) void LookUpAvx512Vbmi(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64);
  const __m512i t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 m = n - i >= 64 ? ~uint64_t{0} : (uint64_t{1} << (n - i)) - 1;
    const __m512i v = _mm512_maskz_loadu_epi8(m, x + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, v, t1);
    const __m512i high = _mm512_permutex2var_epi8(t2, v, t3);
    _mm512_mask_storeu_epi8(y + i, m, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high));
  }
}

}  // namespace tenon::kernels::quantize
