// The bf16 micro-kernels of AVX512_BF16: up to 12 rows by 32 columns, two steps of k an instruction.
// GCC 12 takes the deliberately undefined operands inside its own AVX-512 header for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/gemm/act.h"
#include "kernels/gemm/bf16_tables.h"

namespace tenon::kernels::gemm {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_avx512.inl"
using T = Vec::T;
#include "kernels/gemm/activate.inl"
#include "kernels/gemm/bf16_native.inl"
#include "kernels/gemm/bf16_pack.inl"
#include "kernels/gemm/bf16_simd512.inl"
#include "kernels/gemm/bf16_finish.inl"
// clang-format on

inline __m512bh Pair(const uint16_t* p) {
  int32_t both;
  __builtin_memcpy(&both, p, 4);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
}

template <int kRows>
void Rows(const Bf16Tile& t) {
  __m512 acc[kRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = Vec::Zero();
  const uint16_t* b = t.b;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const uint16_t* a = static_cast<const uint16_t*>(t.a) + (t.tap_offsets != nullptr ? t.tap_offsets[tap] : 0);
    for (int64_t i = 0; i < t.blocks; ++i, b += kBf16Depth * kBf16Panel) {
      for (int64_t pair = 0; pair < 16; ++pair, a += 2) {
        const auto b0 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + pair * 32));
        const auto b1 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + 512 + pair * 32));
#pragma GCC unroll 12
        for (int r = 0; r < kRows; ++r) {
          const __m512bh v = Pair(a + r * t.a_stride);
          acc[r][0] = _mm512_dpbf16_ps(acc[r][0], v, b0);
          acc[r][1] = _mm512_dpbf16_ps(acc[r][1], v, b1);
        }
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    Vec::Store(t.acc + r * kBf16Panel, acc[r][0]);
    Vec::Store(t.acc + r * kBf16Panel + 16, acc[r][1]);
  }
}

void Tile(const Bf16Tile& t) {
  using Function = void (*)(const Bf16Tile&);
  static constexpr Function kByRows[] = {nullptr, Rows<1>, Rows<2>, Rows<3>,  Rows<4>,  Rows<5>, Rows<6>,
                                         Rows<7>, Rows<8>, Rows<9>, Rows<10>, Rows<11>, Rows<12>};
  kByRows[t.rows](t);
}

}  // namespace

extern const Bf16Kernels kBf16Avx512Bf16 = {"avx512bf16", 12,     false,          false,          nullptr, nullptr,
                                            Tile,         Finish, Convert<false>, Windows<false>, Narrow,  PackBf16Panel};

}  // namespace tenon::kernels::gemm
