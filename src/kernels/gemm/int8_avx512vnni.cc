// Byte tiles on AVX-512 with VNNI: VPDPBUSD sums four u8 x s8 products exactly in 32 bits. Signed A is flipped to A + 128.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/gemm/int8_tables.h"

namespace tenon::kernels::gemm {
namespace {

template <bool kSigned, int kVectors, int kRows>
[[gnu::always_inline]] inline void Multiply(const Int8Tile& t, __m512i (&acc)[kRows][kVectors]) {
  for (int64_t i = 0; i < t.ahead_lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(t.ahead + i * 64), _MM_HINT_T1);
  const __m512i flip = _mm512_set1_epi8(-128);
  const int8_t* b = t.b;
  const int64_t stride = t.a_stride[0];
  for (int64_t p = 0; p < t.taps; ++p) {
    const uint8_t* a = t.a[0] + t.tap_offsets[0][p];
    for (int64_t k = 0; k < t.depth; k += 4, b += kVectors * 64) {
      __m512i w[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) w[v] = _mm512_loadu_si512(b + v * 64);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        int32_t four;
        std::memcpy(&four, a + r * stride + k, 4);
        __m512i x = _mm512_set1_epi32(four);
        if (kSigned) x = _mm512_xor_si512(x, flip);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_dpbusd_epi32(acc[r][v], x, w[v]);
      }
    }
  }
}

template <bool kSigned, int kVectors, int kRows>
void Product(const Int8Tile& t) {
  __m512i acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = t.accumulate ? _mm512_loadu_si512(t.sums + (r * kVectors + v) * 16) : _mm512_setzero_si512();
    }
  }
  Multiply<kSigned>(t, acc);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(t.sums + (r * kVectors + v) * 16, acc[r][v]);
  }
}

template <bool kSigned, int kVectors>
void TileKernel(const Int8Tile& t) {
  constexpr int kMost = kVectors == 4 ? 6 : kVectors == 3 ? 8 : 12;
#define TENON_ROWS(r)                                           \
  case r:                                                       \
    if constexpr (r <= kMost) Product<kSigned, kVectors, r>(t); \
    break;
  switch (t.rows) {
    TENON_ROWS(1)
    TENON_ROWS(2)
    TENON_ROWS(3)
    TENON_ROWS(4)
    TENON_ROWS(5)
    TENON_ROWS(6)
    TENON_ROWS(7)
    TENON_ROWS(8)
    TENON_ROWS(9)
    TENON_ROWS(10)
    TENON_ROWS(11)
    TENON_ROWS(12)
    default: break;
  }
}

using VF = __m512;
using VI = __m512i;
constexpr int kLanes = 16;
struct Mask {
  explicit Mask(int64_t n) : bits(n >= kLanes ? 0xFFFF : static_cast<__mmask16>((1U << n) - 1)) {}
  __mmask16 bits;
};
inline VI LoadI(const int32_t* p, Mask m) {
  return _mm512_maskz_loadu_epi32(m.bits, p);
}
inline VF LoadF(const float* p, Mask m) {
  return _mm512_maskz_loadu_ps(m.bits, p);
}
inline VI LoadU8(const uint8_t* p, Mask m) {
  return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m.bits, p));
}
inline VI LoadI8(const uint8_t* p, Mask m) {
  return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(m.bits, p));
}
inline VF LoadBF16(const uint16_t* p, Mask m) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m.bits, p)), 16));
}
inline void StoreI(int32_t* p, VI v, Mask m) {
  _mm512_mask_storeu_epi32(p, m.bits, v);
}
inline void StoreF(float* p, VF v, Mask m) {
  _mm512_mask_storeu_ps(p, m.bits, v);
}
inline void StoreByte(uint8_t* p, VI v, Mask m) {
  _mm512_mask_cvtepi32_storeu_epi8(p, m.bits, v);
}
inline void StoreWord(uint16_t* p, VI v, Mask m) {
  _mm512_mask_cvtepi32_storeu_epi16(p, m.bits, v);
}
inline VI SetI(int32_t v) {
  return _mm512_set1_epi32(v);
}
inline VF SetF(float v) {
  return _mm512_set1_ps(v);
}
inline VI AddI(VI a, VI b) {
  return _mm512_add_epi32(a, b);
}
inline VI SubI(VI a, VI b) {
  return _mm512_sub_epi32(a, b);
}
inline VI MulI(VI a, VI b) {
  return _mm512_mullo_epi32(a, b);
}
inline VI AndI(VI a, VI b) {
  return _mm512_and_si512(a, b);
}
template <int kBits>
inline VI ShiftRight(VI a) {
  return _mm512_srli_epi32(a, kBits);
}
inline VF ToFloat(VI a) {
  return _mm512_cvtepi32_ps(a);
}
inline VI ToInt(VF a) {
  return _mm512_cvtps_epi32(a);
}
inline VI Bits(VF a) {
  return _mm512_castps_si512(a);
}
inline VF MulF(VF a, VF b) {
  return _mm512_mul_ps(a, b);
}
inline VF AddF(VF a, VF b) {
  return _mm512_add_ps(a, b);
}
inline VF SubF(VF a, VF b) {
  return _mm512_sub_ps(a, b);
}
inline VF FmaF(VF a, VF b, VF c) {
  return _mm512_fmadd_ps(a, b, c);
}
// The second operand where either is NaN.
inline VF MinF(VF a, VF b) {
  return _mm512_min_ps(a, b);
}
inline VF MaxF(VF a, VF b) {
  return _mm512_max_ps(a, b);
}
inline VF RoundF(VF a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline VF ZeroNan(VF a) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a);
}
inline VI QuietNan(VF a, VI bits) {
  return _mm512_mask_mov_epi32(bits, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), _mm512_set1_epi32(0x7FC0));
}

#include "kernels/gemm/int8_finish.inl"

// Bytes counted in their own steps, 32 columns of two rows at a time: what nearly all layers of a quantised model end in.
// Saturating packs do the clamps of the type; those of an activation follow on bytes, since rounding is monotonic.
struct Columns {
  __m512 scale, bias;
  __m512i offset;
  __mmask16 mask;
  Columns(const Int8Finish& f, int64_t c)
      : mask(f.n - c >= 16 ? 0xFFFF
             : f.n <= c    ? 0
                           : static_cast<__mmask16>((1U << (f.n - c)) - 1)) {
    scale = _mm512_maskz_loadu_ps(mask, f.scale + c);
    bias = f.bias != nullptr ? _mm512_maskz_loadu_ps(mask, f.bias + c) : _mm512_setzero_ps();
    offset = _mm512_maskz_loadu_epi32(mask, f.offset + c);
  }
};

template <bool kGrid, int kResidual>
inline __m512i Steps(const Int8Finish& f, const Columns& k, int64_t r, int64_t c) {
  const __m512i sum = _mm512_add_epi32(_mm512_maskz_loadu_epi32(k.mask, f.sums + r * f.sums_stride + c), k.offset);
  __m512 v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), k.scale, k.bias);
  if constexpr (kGrid) {
    v = _mm512_max_ps(_mm512_set1_ps(f.grid_low), _mm512_min_ps(_mm512_set1_ps(f.grid_high), v));
    v = _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  if constexpr (kResidual == 3) {
    if constexpr (kGrid) v = _mm512_mul_ps(v, _mm512_set1_ps(f.grid_scale));
    const __m512 addend = _mm512_maskz_loadu_ps(k.mask, static_cast<const float*>(f.residual) + r * f.residual_stride + c);
    v = _mm512_fmadd_ps(addend, _mm512_set1_ps(f.residual_scale), v);
  } else if constexpr (kResidual != 0) {
    const __m128i bytes = _mm_maskz_loadu_epi8(k.mask, static_cast<const uint8_t*>(f.residual) + r * f.residual_stride + c);
    const __m512 addend = _mm512_cvtepi32_ps(kResidual == 1 ? _mm512_cvtepu8_epi32(bytes) : _mm512_cvtepi8_epi32(bytes));
    if constexpr (kGrid) v = _mm512_mul_ps(v, _mm512_set1_ps(f.grid_scale));
    v = _mm512_add_ps(_mm512_fmadd_ps(addend, _mm512_set1_ps(f.residual_scale), v), _mm512_set1_ps(f.residual_shift));
  } else if constexpr (kGrid) {
    v = _mm512_mul_ps(v, _mm512_set1_ps(f.grid_scale));
  }
  // Beyond the range of int32 the conversion gives its least value, which is right below and wrong above.
  return _mm512_cvtps_epi32(_mm512_min_ps(v, _mm512_set1_ps(1e6F)));
}

#include "kernels/gemm/int8_bound.inl"

template <bool kSigned, bool kGrid, int kResidual>
void FinishBytes(const Int8Finish& f) {
  const __m512i zero = _mm512_set1_epi16(static_cast<int16_t>(f.y_zero));
  const __m512i low = Bound(f, kSigned, f.lo), high = Bound(f, kSigned, f.hi);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  auto* y = static_cast<uint8_t*>(f.y);
  for (int64_t c = 0; c < f.n; c += 32) {
    const Columns k0(f, c), k1(f, c + 16);
    const __mmask32 mask = static_cast<uint32_t>(k0.mask) | static_cast<uint32_t>(k1.mask) << 16;
    for (int64_t r = 0; r < f.rows; r += 2) {
      const int64_t s = r + 1 < f.rows ? r + 1 : r;
      const __m512i a = _mm512_packs_epi32(Steps<kGrid, kResidual>(f, k0, r, c), Steps<kGrid, kResidual>(f, k1, r, c + 16));
      const __m512i b = _mm512_packs_epi32(Steps<kGrid, kResidual>(f, k0, s, c), Steps<kGrid, kResidual>(f, k1, s, c + 16));
      const __m512i a_z = _mm512_adds_epi16(a, zero), b_z = _mm512_adds_epi16(b, zero);
      __m512i q;
      if constexpr (kSigned)
        q = _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(a_z, b_z), low), high);
      else
        q = _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(a_z, b_z), low), high);
      q = _mm512_permutexvar_epi32(order, q);
      if (s != r) _mm256_mask_storeu_epi8(y + s * f.y_stride + c, mask, _mm512_extracti64x4_epi64(q, 1));
      _mm256_mask_storeu_epi8(y + r * f.y_stride + c, mask, _mm512_castsi512_si256(q));
    }
  }
}

template <bool kSigned, bool kGrid>
void BytesWith(const Int8Finish& f) {
  if (f.residual == nullptr) return FinishBytes<kSigned, kGrid, 0>(f);
  if (f.residual_kind == Int8Kind::kU8) return FinishBytes<kSigned, kGrid, 1>(f);
  if (f.residual_kind == Int8Kind::kF32) return FinishBytes<kSigned, kGrid, 3>(f);
  FinishBytes<kSigned, kGrid, 2>(f);
}

template <bool kSigned>
void BytesFor(const Int8Finish& f) {
  if (f.through_grid) return BytesWith<kSigned, true>(f);
  BytesWith<kSigned, false>(f);
}

// Whether FinishBytes and what follows serve it.
bool InSteps(const Int8Finish& f) {
  // Rows of an addend were looked through for what is no number; others may hold it.
  const bool float_residual =
      f.residual != nullptr && !IsByte(f.residual_kind) && !(f.residual_kind == Int8Kind::kF32 && f.residual_stride == 0);
  return IsByte(f.kind) && f.b_zero == nullptr && f.y_inverse == 1.0F && f.finite && !float_residual;
}

inline __m512 AddendOf(const Int8Finish& f, __mmask16 mask, int64_t at) {
  if (f.residual_kind == Int8Kind::kF32) return _mm512_maskz_loadu_ps(mask, static_cast<const float*>(f.residual) + at);
  const __m128i bytes = _mm_maskz_loadu_epi8(mask, static_cast<const uint8_t*>(f.residual) + at);
  return _mm512_cvtepi32_ps(f.residual_kind == Int8Kind::kU8 ? _mm512_cvtepu8_epi32(bytes) : _mm512_cvtepi8_epi32(bytes));
}

// Four rows of whole numbers of steps to bytes, one row a quarter.
template <bool kSigned>
inline __m512i PackRows(const __m512i* rows, __m512i zero, __m512i low, __m512i high) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(rows[0], rows[1]), zero);
  const __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(rows[2], rows[3]), zero);
  const __m512i q = kSigned ? _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(a, b), low), high)
                            : _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(a, b), low), high);
  return _mm512_permutexvar_epi32(order, q);
}

inline void StoreQuarter(uint8_t* y, __mmask16 mask, __m128i v) {
  if (mask == 0xFFFF) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), v);
  } else {
    _mm_mask_storeu_epi8(y, mask, v);
  }
}

template <bool kSigned, int kVectors, int kRows>
[[gnu::always_inline]] inline void StoreBytes(const Int8Finish& f, __mmask16 last, const __m512i (&v)[kRows][kVectors]) {
  const __m512i zero = _mm512_set1_epi16(static_cast<int16_t>(f.y_zero));
  const __m512i low = Bound(f, kSigned, f.lo), high = Bound(f, kSigned, f.hi);
  auto* y = static_cast<uint8_t*>(f.y);
#pragma GCC unroll 4
  for (int c = 0; c < kVectors; ++c) {
    const __mmask16 mask = c + 1 < kVectors ? static_cast<__mmask16>(0xFFFF) : last;
#pragma GCC unroll 3
    for (int r = 0; r < kRows; r += 4) {
      const __m512i rows[] = {v[r][c], v[r + 1 < kRows ? r + 1 : r][c], v[r + 2 < kRows ? r + 2 : r][c],
                              v[r + 3 < kRows ? r + 3 : r][c]};
      const __m512i q = PackRows<kSigned>(rows, zero, low, high);
      uint8_t* to = y + r * f.y_stride + c * 16;
      StoreQuarter(to, mask, _mm512_castsi512_si128(q));
      if (r + 1 < kRows) StoreQuarter(to + f.y_stride, mask, _mm512_extracti32x4_epi32(q, 1));
      if (r + 2 < kRows) StoreQuarter(to + 2 * f.y_stride, mask, _mm512_extracti32x4_epi32(q, 2));
      if (r + 3 < kRows) StoreQuarter(to + 3 * f.y_stride, mask, _mm512_extracti32x4_epi32(q, 3));
    }
  }
}

// Nested loops over the vectors of a tile, unrolled so that these stay in registers.
#define TENON_EACH_ROW _Pragma("GCC unroll 16") for (int r = 0; r < kRows; ++r)
#define TENON_EACH_COLUMN _Pragma("GCC unroll 4") for (int c = 0; c < kVectors; ++c)

template <int kVectors, int kRows>
[[gnu::always_inline]] inline void ThroughGrid(const Int8Finish& f, __m512 (&v)[kRows][kVectors]) {
  const __m512 low = _mm512_set1_ps(f.grid_low), high = _mm512_set1_ps(f.grid_high), step = _mm512_set1_ps(f.grid_scale);
  TENON_EACH_ROW {
    TENON_EACH_COLUMN {
      const __m512 bounded = _mm512_max_ps(low, _mm512_min_ps(high, v[r][c]));
      v[r][c] = _mm512_mul_ps(_mm512_roundscale_ps(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), step);
    }
  }
}

template <int kVectors, int kRows>
[[gnu::always_inline]] inline void AddResidual(const Int8Finish& f, __mmask16 last, __m512 (&v)[kRows][kVectors]) {
  const __m512 step = _mm512_set1_ps(f.residual_scale);
  const __m512 shift = _mm512_set1_ps(f.residual_kind == Int8Kind::kF32 ? 0.0F : f.residual_shift);
  TENON_EACH_ROW {
    TENON_EACH_COLUMN {
      const __mmask16 mask = c + 1 < kVectors ? static_cast<__mmask16>(0xFFFF) : last;
      const __m512 addend = AddendOf(f, mask, r * f.residual_stride + c * 16);
      v[r][c] = _mm512_add_ps(_mm512_fmadd_ps(addend, step, v[r][c]), shift);
    }
  }
}

// What FinishBytes does, on a tile in registers.
template <int kVectors, int kRows>
void ProductToBytes(const Int8Tile& t, const Int8Finish& f) {
  const __mmask16 last = Mask(f.n - (kVectors - 1) * 16).bits;
  __m512i acc[kRows][kVectors];
  TENON_EACH_COLUMN {
    const __m512i offset = _mm512_maskz_loadu_epi32(c + 1 < kVectors ? static_cast<__mmask16>(0xFFFF) : last, f.offset + c * 16);
    TENON_EACH_ROW acc[r][c] = offset;
  }
  if (t.accumulate) {
    TENON_EACH_ROW {
      TENON_EACH_COLUMN acc[r][c] = _mm512_add_epi32(acc[r][c], _mm512_loadu_si512(t.sums + (r * kVectors + c) * 16));
    }
  }
  Multiply<false>(t, acc);
  // GCC 12 would store copies of the sums in the loop above, for what follows.
  TENON_EACH_ROW {
    TENON_EACH_COLUMN asm("" : "+v"(acc[r][c]));
  }
  __m512 v[kRows][kVectors];
  TENON_EACH_COLUMN {
    const __mmask16 mask = c + 1 < kVectors ? static_cast<__mmask16>(0xFFFF) : last;
    const __m512 scale = _mm512_maskz_loadu_ps(mask, f.scale + c * 16);
    const __m512 bias = f.bias != nullptr ? _mm512_maskz_loadu_ps(mask, f.bias + c * 16) : _mm512_setzero_ps();
    TENON_EACH_ROW v[r][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[r][c]), scale, bias);
  }
  if (f.through_grid) ThroughGrid(f, v);
  if (f.residual != nullptr) AddResidual(f, last, v);
  // Beyond the range of int32 the conversion gives its least value, which is right below and wrong above.
  TENON_EACH_ROW {
    TENON_EACH_COLUMN acc[r][c] = _mm512_cvtps_epi32(_mm512_min_ps(v[r][c], _mm512_set1_ps(1e6F)));
  }
  if (f.kind == Int8Kind::kU8) {
    StoreBytes<false>(f, last, acc);
  } else {
    StoreBytes<true>(f, last, acc);
  }
}
#undef TENON_EACH_ROW
#undef TENON_EACH_COLUMN

template <int kVectors>
void TileToBytes(const Int8Tile& t, const Int8Finish& f) {
  constexpr int kMost = kVectors == 4 ? 6 : kVectors == 3 ? 8 : 12;
  const auto run = [&]<int... kRows>(std::integer_sequence<int, kRows...>) {
    using Function = void (*)(const Int8Tile&, const Int8Finish&);
    static constexpr Function kByRows[] = {ProductToBytes<kVectors, kRows + 1>...};
    kByRows[t.rows - 1](t, f);
  };
  run(std::make_integer_sequence<int, kMost>());
}

void RowSums(const Int8Tile& t, uint8_t flip, int32_t* sums) {
  const __m512i x = _mm512_set1_epi8(static_cast<char>(flip));
  for (int r = 0; r < t.rows; ++r) {
    __m512i acc = _mm512_setzero_si512();
    for (int64_t p = 0; p < t.taps; ++p) {
      const uint8_t* a = t.a[0] + t.tap_offsets[0][p] + r * t.a_stride[0];
      for (int64_t k = 0; k < t.depth; k += 64) {
        const __mmask64 m = t.depth - k >= 64 ? ~uint64_t{0} : (uint64_t{1} << (t.depth - k)) - 1;
        const __m512i v = _mm512_maskz_mov_epi8(m, _mm512_xor_si512(_mm512_maskz_loadu_epi8(m, a + k), x));
        acc = _mm512_add_epi64(acc, _mm512_sad_epu8(v, _mm512_setzero_si512()));
      }
    }
    sums[r] = static_cast<int32_t>(_mm512_reduce_add_epi64(acc));
  }
}

void RowSumsFlipped(const Int8Tile& t, bool is_signed, int32_t* sums) {
  RowSums(t, is_signed ? 0x80 : 0, sums);
}

}  // namespace

void FinishInt8Avx512(const Int8Finish& f) {
  if (!InSteps(f)) return Finish(f);
  if (f.kind == Int8Kind::kU8) return BytesFor<false>(f);
  BytesFor<true>(f);
}

void ConvertInt8Avx512(const Int8Finish& f) {
  Convert(f);
}

void RowSumsInt8Avx512Plain(const Int8Tile& t, bool is_signed, int32_t* sums) {
  RowSums(t, is_signed ? 0x80 : 0, sums);
  const auto all = static_cast<int32_t>(t.taps * t.depth * (is_signed ? 128 : 0));
  for (int r = 0; r < t.rows; ++r) sums[r] -= all;
}

extern const Int8Kernels kInt8Avx512Vnni = {
    "avx512vnni",
    16,
    4,
    4,
    1,
    {0, 12, 12, 8, 6},
    true,
    {{nullptr, TileKernel<false, 1>, TileKernel<false, 2>, TileKernel<false, 3>, TileKernel<false, 4>},
     {nullptr, TileKernel<true, 1>, TileKernel<true, 2>, TileKernel<true, 3>, TileKernel<true, 4>}},
    nullptr,
    nullptr,
    FinishInt8Avx512,
    ConvertInt8Avx512,
    RowSumsFlipped,
    InSteps,
    {nullptr, TileToBytes<1>, TileToBytes<2>, TileToBytes<3>, TileToBytes<4>},
};

}  // namespace tenon::kernels::gemm
