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
#include "kernels/gemm/bf16_store_native.inl"
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

// How much of a panel is wanted.
enum class Columns { k16, k24, k32 };

// With 24 columns two rows share the vector of the last eight: the even row has the lower half.
template <int kRows, Columns kColumns>
struct Sums {
  static constexpr int kSecond = kColumns == Columns::k32 ? kRows : kColumns == Columns::k24 ? (kRows + 1) / 2 : 0;
  __m512 first[kRows];
  __m512 second[kSecond + 1];

  void Clear() {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) first[r] = Vec::Zero();
#pragma GCC unroll 12
    for (int r = 0; r < kSecond; ++r) second[r] = Vec::Zero();
  }

  void Load(const float* acc) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) first[r] = Vec::Load(acc + r * kBf16Panel);
#pragma GCC unroll 12
    for (int r = 0; r < kSecond; ++r) {
      if (kColumns == Columns::k32) {
        second[r] = Vec::Load(acc + r * kBf16Panel + 16);
      } else {
        second[r] = _mm512_castps256_ps512(_mm256_load_ps(acc + 2 * r * kBf16Panel + 16));
        if (2 * r + 1 < kRows) second[r] = _mm512_insertf32x8(second[r], _mm256_load_ps(acc + (2 * r + 1) * kBf16Panel + 16), 1);
      }
    }
  }

  void Store(float* acc) const {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) Vec::Store(acc + r * kBf16Panel, first[r]);
#pragma GCC unroll 12
    for (int r = 0; r < kSecond; ++r) {
      if (kColumns == Columns::k32) {
        Vec::Store(acc + r * kBf16Panel + 16, second[r]);
      } else {
        _mm256_store_ps(acc + 2 * r * kBf16Panel + 16, _mm512_castps512_ps256(second[r]));
        if (2 * r + 1 < kRows) _mm256_store_ps(acc + (2 * r + 1) * kBf16Panel + 16, _mm512_extractf32x8_ps(second[r], 1));
      }
    }
  }

  // One pair of k.
  void Add(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_half) {
    const auto b0 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b));
    __m512bh b1{};
    if (kColumns == Columns::k32) b1 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + b_half));
    if (kColumns == Columns::k24) {
      b1 = reinterpret_cast<__m512bh>(_mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + b_half))));
    }
    __m512bh even{};
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512bh v = Pair(a + r * a_stride);
      first[r] = _mm512_dpbf16_ps(first[r], v, b0);
      if (kColumns == Columns::k32) second[r] = _mm512_dpbf16_ps(second[r], v, b1);
      if (kColumns != Columns::k24) continue;
      if (r % 2 == 0) even = v;
      if (r % 2 == 0 && r + 1 < kRows) continue;
      const auto both = _mm512_mask_blend_epi32(0xff00, reinterpret_cast<__m512i>(even), reinterpret_cast<__m512i>(v));
      second[r / 2] = _mm512_dpbf16_ps(second[r / 2], reinterpret_cast<__m512bh>(both), b1);
    }
  }
};

template <int kRows, Columns kColumns>
[[gnu::always_inline]] inline void Multiply(const Bf16Tile& t, Sums<kRows, kColumns>& sums) {
  if (t.accumulate) {
    sums.Load(t.acc);
  } else {
    sums.Clear();
  }
  const uint16_t* b = t.b;
  const uint16_t* ahead = t.ahead;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const uint16_t* a = static_cast<const uint16_t*>(t.a) + (t.tap_offsets != nullptr ? t.tap_offsets[tap] : 0);
    for (int64_t i = 0; i < t.blocks; ++i, b += t.b_block) {
      for (int64_t line = 0; line < t.ahead_lines; ++line, ahead += 32)
        _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
      const int64_t pairs = i + 1 < t.blocks ? 16 : 16 - t.skip;
      for (int64_t pair = 0; pair < pairs; ++pair, a += 2) sums.Add(a, t.a_stride, b + pair * 32, t.b_half);
    }
  }
}

template <int kRows, Columns kColumns>
void Rows(const Bf16Tile& t) {
  Sums<kRows, kColumns> sums;
  Multiply(t, sums);
  sums.Store(t.acc);
}

template <int kRows>
[[gnu::always_inline]] inline void AddResidual(const Bf16Finish& f, Sums<kRows, Columns::k32>& s) {
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    s.first[r] = Vec::Add(s.first[r], LoadAny(f.residual, f.residual_f32, r * f.residual_stride, 16));
    s.second[r] = Vec::Add(s.second[r], LoadAny(f.residual, f.residual_f32, r * f.residual_stride + 16, 16));
  }
}

template <int kRows>
void RowsFinish(const Bf16Tile& t, const Bf16Finish& f) {
  Sums<kRows, Columns::k32> s;
  if (t.blocks == 1) {
    // Little to compute for what is stored. The next tile writes below this one: its lines should be on their way then.
    const int64_t row_bytes = f.c_stride * (f.c_f32 ? 4 : 2);
    const char* below = static_cast<const char*>(f.c) + kRows * row_bytes;
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) __builtin_prefetch(below + r * row_bytes, 1);
  }
  Multiply(t, s);
  const T alpha = Vec::Set(f.alpha);
  const T bias0 = f.bias != nullptr ? Vec::Load(f.bias) : Vec::Zero();
  const T bias1 = f.bias != nullptr ? Vec::Load(f.bias + 16) : Vec::Zero();
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    s.first[r] = Vec::Fma(s.first[r], alpha, bias0);
    s.second[r] = Vec::Fma(s.second[r], alpha, bias1);
  }
  if (f.residual != nullptr) AddResidual(f, s);
  if (f.rest != nullptr) {
    const T scale = Vec::Set(f.rest->post_scale);
    const T shift = Vec::Set(f.rest->post_shift);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      s.first[r] = HardSwish(s.first[r], scale, shift);
      s.second[r] = HardSwish(s.second[r], scale, shift);
    }
  } else {
    const T lo = Vec::Set(f.lo);
    const T hi = Vec::Set(f.hi);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      s.first[r] = Vec::Min(hi, Vec::Max(lo, s.first[r]));
      s.second[r] = Vec::Min(hi, Vec::Max(lo, s.second[r]));
    }
  }
  if (f.c_f32) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      Vec::Store(static_cast<float*>(f.c) + r * f.c_stride, s.first[r]);
      Vec::Store(static_cast<float*>(f.c) + r * f.c_stride + 16, s.second[r]);
    }
  } else {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const T v[] = {s.first[r], s.second[r]};
      StoreRow(static_cast<uint16_t*>(f.c) + r * f.c_stride, v);
    }
  }
}

void TileFinish(const Bf16Tile& t, const Bf16Finish& f) {
  using Function = void (*)(const Bf16Tile&, const Bf16Finish&);
  static constexpr Function kByRows[] = {nullptr,        RowsFinish<1>,  RowsFinish<2>, RowsFinish<3>, RowsFinish<4>,
                                         RowsFinish<5>,  RowsFinish<6>,  RowsFinish<7>, RowsFinish<8>, RowsFinish<9>,
                                         RowsFinish<10>, RowsFinish<11>, RowsFinish<12>};
  kByRows[t.rows](t, f);
}

template <Columns kColumns>
void TileOf(const Bf16Tile& t) {
  using Function = void (*)(const Bf16Tile&);
  static constexpr Function kByRows[] = {nullptr,           Rows<1, kColumns>, Rows<2, kColumns>,  Rows<3, kColumns>,
                                         Rows<4, kColumns>, Rows<5, kColumns>, Rows<6, kColumns>,  Rows<7, kColumns>,
                                         Rows<8, kColumns>, Rows<9, kColumns>, Rows<10, kColumns>, Rows<11, kColumns>,
                                         Rows<12, kColumns>};
  kByRows[t.rows](t);
}

void Tile(const Bf16Tile& t) {
  if (t.narrow) {
    TileOf<Columns::k16>(t);
  } else if (t.to_24) {
    TileOf<Columns::k24>(t);
  } else {
    TileOf<Columns::k32>(t);
  }
}

}  // namespace

extern const Bf16Kernels kBf16Avx512Bf16 = {"avx512bf16", 12,   2,      true,       false,          false,          nullptr,
                                            nullptr,      Tile, Finish, TileFinish, Convert<false>, Windows<false>, Narrow,
                                            PackBf16Panel};

}  // namespace tenon::kernels::gemm
