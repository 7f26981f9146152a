// The inner functions of products with weights in blocks, for AVX2: codes and x as integers of 16 bits, two products a lane and
// instruction.
#include <immintrin.h>

#include "kernels/block_matmul/packed.h"

namespace tenon::kernels::block_matmul {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/v16/avx2.inl"
#include "kernels/v16/math.inl"
#include "kernels/block_matmul/factors.inl"
#include "kernels/block_matmul/generic.inl"
#include "kernels/block_matmul/quantize.inl"
#include "kernels/block_matmul/forms.inl"
// clang-format on

// Codes of eight columns, as bytes.
template <Form kForm>
class CodeReader {
 public:
  explicit CodeReader(const Layout& layout) {
    if (kForm == kTable) table_ = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(layout.table)));
  }

  // Elements 4j.. and 16 + 4j.. of the block at w, of the first or the last eight columns.
  [[gnu::always_inline]] void Read(const uint8_t* w, int j, int columns, __m256i* a, __m256i* b) const {
    const __m256i v = Bytes(w + j * 64 + columns * 32);
    if constexpr (kForm == kByte) {
      *a = v;
      *b = Bytes(w + 256 + j * 64 + columns * 32);
      return;
    }
    const __m256i nibble = _mm256_set1_epi8(15);
    *a = _mm256_and_si256(v, nibble);
    *b = _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble);
    if constexpr (kForm == kTable) {
      *a = _mm256_shuffle_epi8(table_, *a);
      *b = _mm256_shuffle_epi8(table_, *b);
    }
    if constexpr (kForm == kFive || kForm == kSix) {
      // What is wanted goes to bit 4; what shifts carry into a byte from the next one stays above or below it.
      const __m256i high = Bytes(w + 256 + (kForm == kFive ? 0 : j / 2 * 64) + columns * 32);
      const __m128i by = _mm_cvtsi32_si128(kForm == kFive ? j : j % 2 * 2);
      const __m256i mask = _mm256_set1_epi8(kForm == kFive ? 0x10 : 0x30);
      *a = _mm256_or_si256(*a, _mm256_and_si256(_mm256_srl_epi16(high, by), mask));
      *b = _mm256_or_si256(*b, _mm256_and_si256(_mm256_srl_epi16(_mm256_slli_epi16(high, 4), by), mask));
    }
  }

 private:
  static __m256i Bytes(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

  __m256i table_ = _mm256_setzero_si256();
};

// Four elements of eight columns.
struct Four {
  __m256i even, odd;
  explicit Four(__m256i codes) : even(_mm256_and_si256(codes, _mm256_set1_epi16(255))), odd(_mm256_srli_epi16(codes, 8)) {}
};

__m256i Pair(const int16_t* q) {
  int32_t both;
  __builtin_memcpy(&both, q, 4);
  return _mm256_set1_epi32(both);
}

// `q`: elements 0 and 2, then 1 and 3.
__m256i AddProducts(__m256i sum, const Four& codes, const int16_t* q) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(codes.even, Pair(q)));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(codes.odd, Pair(q + 2)));
}

// Sums of a block's elements are exact integers; then scale and minimum of the column and the scale of the row.
template <Form kForm, bool kHalves, int kRows>
void DotOf(const Dot& t) {
  constexpr int kSums = kHalves ? 2 : 1;
  const Layout& layout = *t.layout;
  const int64_t step = layout.block_bytes();
  const bool has_min = layout.has_min;
  const int32_t zero = layout.zero;
  const CodeReader<kForm> codes(layout);
  Factors factors(t.w, layout, t.blocks);
  V acc[kRows];
  for (V& a : acc) a = Zero();
  const uint8_t* w = t.w;
  for (int64_t block = 0; block < t.blocks; ++block, w += step) {
    for (int64_t line = 0; line < step; line += 64) __builtin_prefetch(w + kAhead + line);
    factors.Next(block, w);
    __m256i sums[2][kRows][kSums];   // of eight columns each
#pragma GCC unroll 8
    for (int i = 0; i < 2 * kRows * kSums; ++i) sums[i / kRows / kSums][i / kSums % kRows][i % kSums] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 2
      for (int columns = 0; columns < 2; ++columns) {
        __m256i a, b;
        codes.Read(w, j, columns, &a, &b);
        const Four first(a), last(b);
#pragma GCC unroll 2
        for (int r = 0; r < kRows; ++r) {
          const int16_t* q = t.x[r].q + block * 32 + j * 4;
          __m256i* sum = sums[columns][r];
          sum[0] = AddProducts(sum[0], first, q);
          sum[kSums - 1] = AddProducts(sum[kSums - 1], last, q + 16);
        }
      }
    }
#pragma GCC unroll 2
    for (int i = 0; i < kSums; ++i) {
      const V scale = factors.Scale(i), min = factors.Min(i);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
        const int32_t* of_x = t.x[r].sums + block * 2;
        const int32_t sum = kHalves ? of_x[i] : of_x[0] + of_x[1];
        const __m256i shift = _mm256_set1_epi32(zero * sum);
        const V dot = {_mm256_cvtepi32_ps(_mm256_sub_epi32(sums[0][r][i], shift)),
                       _mm256_cvtepi32_ps(_mm256_sub_epi32(sums[1][r][i], shift))};
        const float x = t.x[r].scale[block];
        acc[r] = Fma(Mul(dot, scale), Set(x), acc[r]);
        if (has_min) acc[r] = Sub(acc[r], Mul(min, Set(x * static_cast<float>(sum))));
      }
    }
  }
  for (int r = 0; r < kRows; ++r) Store(t.y + r * t.y_step, acc[r]);
}

template <Form kForm, bool kHalves>
void DotRows(const Dot& t) {
  for (int r = 0; r < t.rows; r += 2) {
    Dot two = t;
    two.x += r, two.y += r * t.y_step;
    r + 1 < t.rows ? DotOf<kForm, kHalves, 2>(two) : DotOf<kForm, kHalves, 1>(two);
  }
}

void DotAvx2(const Dot& t) {
  const Layout& layout = *t.layout;
  if (layout.is_float()) return DotAnyFloats(t);
  WithFormOf(layout, [&]<Form kForm>() { layout.halves ? DotRows<kForm, true>(t) : DotRows<kForm, false>(t); });
}

// Two rows of depth of eight columns as pairs.
void StorePair(__m256 even, __m256 odd, uint16_t* to) {
  const __m256i pair = _mm256_or_si256(Bf16Bits(even), _mm256_slli_epi32(Bf16Bits(odd), 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), pair);
}

// Four rows of depth of eight columns, from [column][4] bytes.
void StoreFour(__m256i codes, __m256 scale, __m256 shift, uint16_t* to) {
  const __m256i byte = _mm256_set1_epi32(255);
  const auto element = [&](__m256i code) { return _mm256_fmadd_ps(_mm256_cvtepi32_ps(code), scale, shift); };
  StorePair(element(_mm256_and_si256(codes, byte)), element(_mm256_and_si256(_mm256_srli_epi32(codes, 8), byte)), to);
  StorePair(element(_mm256_and_si256(_mm256_srli_epi32(codes, 16), byte)), element(_mm256_srli_epi32(codes, 24)), to + 32);
}

template <Form kForm>
void UnpackCodes(const uint8_t* w, const Layout& layout, int64_t blocks, uint16_t* to) {
  const V zero = Set(-static_cast<float>(layout.zero));
  const CodeReader<kForm> codes(layout);
  Factors factors(w, layout, blocks);
  for (int64_t b = 0; b < blocks; ++b, w += layout.block_bytes(), to += 1024) {
    factors.Next(b, w);
    V scale[2], shift[2];
    for (int half = 0; half < 2; ++half) {
      scale[half] = factors.Scale(half);
      shift[half] = Sub(Mul(zero, scale[half]), factors.Min(half));
    }
    for (int j = 0; j < 4; ++j) {
      for (int columns = 0; columns < 2; ++columns) {
        __m256i first, last;
        codes.Read(w, j, columns, &first, &last);
        const auto part = [&](const V& v) { return columns == 0 ? v.a : v.b; };
        StoreFour(first, part(scale[0]), part(shift[0]), to + j * 64 + columns * 16);
        StoreFour(last, part(scale[1]), part(shift[1]), to + 256 + j * 64 + columns * 16);
      }
    }
  }
}

template <Codes kCodes>
void UnpackFloats(const uint8_t* w, int64_t blocks, uint16_t* to) {
  for (int64_t d = 0; d < blocks * 32; d += 2, to += d % 32 == 0 ? 544 : 32) {
    V even, odd;
    FloatsAt<kCodes>(w, d, &even, &odd);
    StorePair(even.a, odd.a, to);
    StorePair(even.b, odd.b, to + 16);
  }
}

}  // namespace

void UnpackAvx2(const uint8_t* w, const Layout& layout, int64_t blocks, uint16_t* to) {
  switch (layout.codes) {
    case Codes::kF16: return UnpackFloats<Codes::kF16>(w, blocks, to);
    case Codes::kF32: return UnpackFloats<Codes::kF32>(w, blocks, to);
    default: WithFormOf(layout, [&]<Form kForm>() { UnpackCodes<kForm>(w, layout, blocks, to); });
  }
}

extern const Inner kAvx2 = {"avx2", QuantizePlain, DotAvx2, UnpackAvx2, Finish};

}  // namespace tenon::kernels::block_matmul
