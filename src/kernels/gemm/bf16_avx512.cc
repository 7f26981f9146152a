// The bf16 micro-kernels of AVX-512 without BF16: B is widened to f32 as it is read, A when it is copied.
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
#include "kernels/gemm/bf16_store_avx512.inl"

inline __m512 RoundBf(__m512 v) {
  return _mm512_castsi512_ps(_mm512_and_si512(RoundBits(v), _mm512_set1_epi32(static_cast<int32_t>(0xffff0000U))));
}

inline void StoreRow(uint16_t* p, const __m512* v) {
  for (int i = 0; i < 32 / Vec::kLanes; ++i) StoreBf(p + i * Vec::kLanes, v[i], Vec::kLanes);
}

// A is f32 here.
inline bool CopyWindows(const Bf16Windows&) {
  return false;
}

#include "kernels/gemm/bf16_pack.inl"
#include "kernels/gemm/bf16_simd512.inl"
#include "kernels/gemm/bf16_finish.inl"
// clang-format on

template <int kRows>
void Rows(const Bf16Tile& t) {
  __m512 acc[kRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = Vec::Zero();
  const uint16_t* b = t.b;
  const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000U));
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const float* a = static_cast<const float*>(t.a) + (t.tap_offsets != nullptr ? t.tap_offsets[tap] : 0);
    for (int64_t i = 0; i < t.blocks; ++i, b += t.b_block) {
      for (int64_t pair = 0; pair < 16; ++pair, a += 2) {
        const __m512i raw0 = _mm512_loadu_si512(b + pair * 32);
        const __m512i raw1 = _mm512_loadu_si512(b + t.b_half + pair * 32);
        const __m512 even0 = _mm512_castsi512_ps(_mm512_slli_epi32(raw0, 16));
        const __m512 even1 = _mm512_castsi512_ps(_mm512_slli_epi32(raw1, 16));
        const __m512 odd0 = _mm512_castsi512_ps(_mm512_and_si512(raw0, upper));
        const __m512 odd1 = _mm512_castsi512_ps(_mm512_and_si512(raw1, upper));
#pragma GCC unroll 12
        for (int r = 0; r < kRows; ++r) {
          const float* row = a + r * t.a_stride;
          acc[r][0] = Vec::Fma(Vec::Set(row[0]), even0, acc[r][0]);
          acc[r][1] = Vec::Fma(Vec::Set(row[0]), even1, acc[r][1]);
          acc[r][0] = Vec::Fma(Vec::Set(row[1]), odd0, acc[r][0]);
          acc[r][1] = Vec::Fma(Vec::Set(row[1]), odd1, acc[r][1]);
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

extern const Bf16Kernels kBf16Avx512 = {"avx512", 12,     32,      false,         true,          false,  nullptr,      nullptr,
                                        Tile,     Finish, nullptr, Convert<true>, Windows<true>, Narrow, PackBf16Panel};

}  // namespace tenon::kernels::gemm
