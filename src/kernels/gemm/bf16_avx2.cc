// The bf16 micro-kernels of AVX2: 6 rows by 16 columns at a time; B is widened to f32 as it is read, A when it is copied.
#include <immintrin.h>

#include "kernels/gemm/act.h"
#include "kernels/gemm/bf16_tables.h"

namespace tenon::kernels::gemm {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_avx2.inl"
using T = Vec::T;
#include "kernels/gemm/activate.inl"
#include "kernels/gemm/bf16_store_avx2.inl"

inline __m256 LoadBf(const uint16_t* p, int64_t n) {
  __m128i raw;
  if (n == 8) {
    raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  } else {
    alignas(16) uint16_t all[8] = {};
    for (int64_t i = 0; i < n; ++i) all[i] = p[i];
    raw = _mm_load_si128(reinterpret_cast<const __m128i*>(all));
  }
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}

inline __m256 RoundBf(__m256 v) {
  return _mm256_castsi256_ps(_mm256_and_si256(RoundBits(v), _mm256_set1_epi32(static_cast<int32_t>(0xffff0000U))));
}

inline void StoreRow(uint16_t* p, const __m256* v) {
  for (int i = 0; i < 32 / Vec::kLanes; ++i) StoreBf(p + i * Vec::kLanes, v[i], Vec::kLanes);
}

// A is f32 here.
inline bool CopyWindows(const Bf16Windows&) {
  return false;
}

#include "kernels/gemm/bf16_pack.inl"
#include "kernels/gemm/bf16_finish.inl"
// clang-format on

template <int kRows>
void Rows(const Bf16Tile& t) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000U));
  for (int64_t half = 0; half < (t.narrow ? 1 : 2); ++half) {
    __m256 acc[kRows][2];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = Vec::Zero();
    const uint16_t* b = t.b + half * t.b_half;
    for (int64_t tap = 0; tap < t.taps; ++tap) {
      const float* a = static_cast<const float*>(t.a) + (t.tap_offsets != nullptr ? t.tap_offsets[tap] : 0);
      for (int64_t i = 0; i < t.blocks; ++i, b += t.b_block) {
        for (int64_t pair = 0; pair < 16; ++pair, a += 2) {
          const auto* at = reinterpret_cast<const __m256i*>(b + pair * 32);
          // Each element of A is spread once, for both vectors: 24 of the 44 instructions multiply.
          const auto add = [&](int64_t k, __m256 b0, __m256 b1) {
#pragma GCC unroll 6
            for (int r = 0; r < kRows; ++r) {
              const __m256 v = Vec::Set(a[r * t.a_stride + k]);
              acc[r][0] = Vec::Fma(v, b0, acc[r][0]);
              acc[r][1] = Vec::Fma(v, b1, acc[r][1]);
            }
          };
          const __m256i low = _mm256_loadu_si256(at), high = _mm256_loadu_si256(at + 1);
          add(0, _mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16)));
          add(1, _mm256_castsi256_ps(_mm256_and_si256(low, upper)), _mm256_castsi256_ps(_mm256_and_si256(high, upper)));
        }
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      Vec::Store(t.acc + r * kBf16Panel + half * 16, acc[r][0]);
      Vec::Store(t.acc + r * kBf16Panel + half * 16 + 8, acc[r][1]);
    }
  }
}

void Tile(const Bf16Tile& t) {
  using Function = void (*)(const Bf16Tile&);
  static constexpr Function kByRows[] = {nullptr, Rows<1>, Rows<2>, Rows<3>, Rows<4>, Rows<5>, Rows<6>};
  kByRows[t.rows](t);
}

}  // namespace

extern const Bf16Kernels kBf16Avx2 = {"avx2", 6,      32,      false,         true,          false,  nullptr,       nullptr,
                                      Tile,   Finish, nullptr, Convert<true>, Windows<true>, Narrow, PackPanelPlain};

}  // namespace tenon::kernels::gemm
