// Byte tiles on AVX2: bytes are widened to 16 bits before they are multiplied (VPMADDUBSW would saturate its sums of two).
#include <immintrin.h>

#include <cstring>

#include "kernels/gemm/int8_tables.h"

namespace tenon::kernels::gemm {
namespace {

// Of the four bytes of each 32-bit group those at even places as 16-bit words; and those at odd ones.
template <bool kSigned>
inline __m256i Even(__m256i x) {
  if constexpr (kSigned) return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
  return _mm256_and_si256(x, _mm256_set1_epi16(0xFF));
}
template <bool kSigned>
inline __m256i Odd(__m256i x) {
  return kSigned ? _mm256_srai_epi16(x, 8) : _mm256_srli_epi16(x, 8);
}

template <bool kSigned, int kVectors, int kRows>
void Product(const Int8Tile& t) {
  __m256i acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm256_setzero_si256();
  }
  const int8_t* b = t.b;
  const int64_t stride = t.a_stride[0];
  for (int64_t p = 0; p < t.taps; ++p) {
    const uint8_t* a = t.a[0] + t.tap_offsets[0][p];
    for (int64_t k = 0; k < t.depth; k += 4, b += kVectors * 32) {
      __m256i even[kVectors], odd[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + v * 32));
        even[v] = Even<true>(w);
        odd[v] = Odd<true>(w);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        int32_t four;
        std::memcpy(&four, a + r * stride + k, 4);
        const __m256i x = _mm256_set1_epi32(four);
        const __m256i x_even = Even<kSigned>(x);
        const __m256i x_odd = Odd<kSigned>(x);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          acc[r][v] = _mm256_add_epi32(acc[r][v], _mm256_madd_epi16(x_even, even[v]));
          acc[r][v] = _mm256_add_epi32(acc[r][v], _mm256_madd_epi16(x_odd, odd[v]));
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(t.sums + (r * kVectors + v) * 8), acc[r][v]);
    }
  }
}

template <bool kSigned, int kVectors>
void TileKernel(const Int8Tile& t) {
  switch (t.rows) {
    case 1: return Product<kSigned, kVectors, 1>(t);
    case 2: return Product<kSigned, kVectors, 2>(t);
    case 3: return Product<kSigned, kVectors, 3>(t);
    case 4: return Product<kSigned, kVectors, 4>(t);
    default: return;
  }
}

using VF = __m256;
using VI = __m256i;
constexpr int kLanes = 8;
struct Mask {
  explicit Mask(int64_t n) : count(n >= kLanes ? kLanes : static_cast<int>(n)) {
    lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  int count;
  __m256i lanes;
};
inline VI LoadI(const int32_t* p, Mask m) {
  return _mm256_maskload_epi32(p, m.lanes);
}
inline VF LoadF(const float* p, Mask m) {
  return _mm256_maskload_ps(p, m.lanes);
}
inline __m128i LoadBytes(const uint8_t* p, Mask m) {
  if (m.count == kLanes) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  uint64_t eight = 0;
  std::memcpy(&eight, p, static_cast<unsigned>(m.count));
  return _mm_cvtsi64_si128(static_cast<int64_t>(eight));
}
inline VI LoadU8(const uint8_t* p, Mask m) {
  return _mm256_cvtepu8_epi32(LoadBytes(p, m));
}
inline VI LoadI8(const uint8_t* p, Mask m) {
  return _mm256_cvtepi8_epi32(LoadBytes(p, m));
}
inline VF LoadBF16(const uint16_t* p, Mask m) {
  uint16_t words[kLanes] = {};
  std::memcpy(words, p, static_cast<unsigned>(m.count) * 2);
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline void StoreI(int32_t* p, VI v, Mask m) {
  _mm256_maskstore_epi32(p, m.lanes, v);
}
inline void StoreF(float* p, VF v, Mask m) {
  _mm256_maskstore_ps(p, m.lanes, v);
}
// Values fit the narrow type: the low halves are gathered without saturation.
inline void StoreWord(uint16_t* p, VI v, Mask m) {
  const __m256i low = _mm256_and_si256(v, _mm256_set1_epi32(0xFFFF));
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  uint16_t out[kLanes];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), words);
  std::memcpy(p, out, static_cast<unsigned>(m.count) * 2);
}
inline void StoreByte(uint8_t* p, VI v, Mask m) {
  const __m256i low = _mm256_and_si256(v, _mm256_set1_epi32(0xFF));
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  const __m128i bytes = _mm_packus_epi16(words, words);
  if (m.count == kLanes) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), bytes);
    return;
  }
  const int64_t eight = _mm_cvtsi128_si64(bytes);
  std::memcpy(p, &eight, static_cast<unsigned>(m.count));
}
inline VI SetI(int32_t v) {
  return _mm256_set1_epi32(v);
}
inline VF SetF(float v) {
  return _mm256_set1_ps(v);
}
inline VI AddI(VI a, VI b) {
  return _mm256_add_epi32(a, b);
}
inline VI SubI(VI a, VI b) {
  return _mm256_sub_epi32(a, b);
}
inline VI MulI(VI a, VI b) {
  return _mm256_mullo_epi32(a, b);
}
inline VI AndI(VI a, VI b) {
  return _mm256_and_si256(a, b);
}
template <int kBits>
inline VI ShiftRight(VI a) {
  return _mm256_srli_epi32(a, kBits);
}
inline VF ToFloat(VI a) {
  return _mm256_cvtepi32_ps(a);
}
inline VI ToInt(VF a) {
  return _mm256_cvtps_epi32(a);
}
inline VI Bits(VF a) {
  return _mm256_castps_si256(a);
}
inline VF MulF(VF a, VF b) {
  return _mm256_mul_ps(a, b);
}
inline VF AddF(VF a, VF b) {
  return _mm256_add_ps(a, b);
}
inline VF SubF(VF a, VF b) {
  return _mm256_sub_ps(a, b);
}
inline VF FmaF(VF a, VF b, VF c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline VF MinF(VF a, VF b) {
  return _mm256_min_ps(a, b);
}
inline VF MaxF(VF a, VF b) {
  return _mm256_max_ps(a, b);
}
inline VF RoundF(VF a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline VF ZeroNan(VF a) {
  return _mm256_and_ps(a, _mm256_cmp_ps(a, a, _CMP_ORD_Q));
}
inline VI QuietNan(VF a, VI bits) {
  return _mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7FC0), _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
}

#include "kernels/gemm/int8_finish.inl"

void RowSums(const Int8Tile& t, bool is_signed, int32_t* sums) {
  const __m256i x = _mm256_set1_epi8(is_signed ? -128 : 0);
  const uint8_t flip = is_signed ? 0x80 : 0;
  for (int r = 0; r < t.rows; ++r) {
    __m256i acc = _mm256_setzero_si256();
    int64_t rest = 0;
    for (int64_t p = 0; p < t.taps; ++p) {
      const uint8_t* a = t.a[0] + t.tap_offsets[0][p] + r * t.a_stride[0];
      int64_t k = 0;
      for (; k + 32 <= t.depth; k += 32) {
        const __m256i v = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + k)), x);
        acc = _mm256_add_epi64(acc, _mm256_sad_epu8(v, _mm256_setzero_si256()));
      }
      for (; k < t.depth; ++k) rest += a[k] ^ flip;
    }
    int64_t parts[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(parts), acc);
    sums[r] = static_cast<int32_t>(rest + parts[0] + parts[1] + parts[2] + parts[3] - t.taps * t.depth * flip);
  }
}

}  // namespace

extern const Int8Kernels kInt8Avx2 = {
    "avx2",
    8,
    2,
    4,
    1,
    {0, 4, 4, 0, 0},
    false,
    {{nullptr, TileKernel<false, 1>, TileKernel<false, 2>, nullptr, nullptr},
     {nullptr, TileKernel<true, 1>, TileKernel<true, 2>, nullptr, nullptr}},
    nullptr,
    nullptr,
    Finish,
    Convert,
    RowSums,
};

}  // namespace tenon::kernels::gemm
