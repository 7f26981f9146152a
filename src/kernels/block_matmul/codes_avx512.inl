// Codes of weights as bytes, for AVX-512. Included by its files after forms.inl.

template <Form kForm>
class CodeReader {
 public:
  explicit CodeReader(const Layout& layout) {
    if (kForm == kTable) table_ = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(layout.table)));
  }

  // Elements 4j.. and 16 + 4j.. of all columns, of the block at w; j from 0 to 3 in order.
  [[gnu::always_inline]] void Read(const uint8_t* w, int j, __m512i* a, __m512i* b) {
    const __m512i v = _mm512_loadu_si512(w + j * 64);
    if constexpr (kForm == kByte) {
      *a = v;
      *b = _mm512_loadu_si512(w + 256 + j * 64);
      return;
    }
    const __m512i nibble = _mm512_set1_epi8(15);
    *a = _mm512_and_si512(v, nibble);
    *b = _mm512_and_si512(_mm512_srli_epi16(v, 4), nibble);
    if constexpr (kForm == kTable) {
      *a = _mm512_shuffle_epi8(table_, *a);
      *b = _mm512_shuffle_epi8(table_, *b);
    }
    if constexpr (kForm == kFive || kForm == kSix) {
      ReadHigh(w + 256, j);
      // a | (high & mask)
      const __m512i mask = _mm512_set1_epi8(kForm == kFive ? 0x10 : 0x30);
      *a = _mm512_ternarylogic_epi32(*a, high_a_, mask, 0xf8);
      *b = _mm512_ternarylogic_epi32(*b, high_b_, mask, 0xf8);
    }
  }

 private:
  // What is wanted goes to bit 4; what shifts carry into a byte from the next one stays above or below it.
  [[gnu::always_inline]] void ReadHigh(const uint8_t* high, int j) {
    const int every = kForm == kFive ? 4 : 2;
    if (j % every == 0) {
      high_a_ = _mm512_loadu_si512(high + j / every * 64);
      high_b_ = _mm512_slli_epi16(high_a_, 4);
    } else {
      high_a_ = _mm512_srli_epi16(high_a_, kForm == kFive ? 1 : 2);
      high_b_ = _mm512_srli_epi16(high_b_, kForm == kFive ? 1 : 2);
    }
  }

  __m512i table_ = _mm512_setzero_si512(), high_a_ = _mm512_setzero_si512(), high_b_ = _mm512_setzero_si512();
};
