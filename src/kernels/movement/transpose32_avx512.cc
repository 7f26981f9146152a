// 4-byte matrix transposition in 16x16 register tiles with masked edges.
#include <immintrin.h>

#include <cstdint>

// GCC 12 takes the undefined pass-through operands of its own intrinsics for uses of uninitialised variables.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace tenon::kernels::movement {
namespace {

// `rows` x `cols` (each 1..16) of a 16x16 tile.
inline void Tile(const uint32_t* src, int64_t src_stride, uint32_t* dst, int64_t dst_stride, int rows, int cols) {
  const auto load = static_cast<__mmask16>((1u << cols) - 1);
  const auto store = static_cast<__mmask16>((1u << rows) - 1);
  __m512i r[16];
  __m512i t[16];
  for (int i = 0; i < 16; ++i) {
    r[i] = i < rows ? _mm512_maskz_loadu_epi32(load, src + i * src_stride) : _mm512_setzero_si512();
  }
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // r[4*g+j] holds, per 128-bit lane L, column 4*L+j of source rows 4*g..4*g+3.
  for (int j = 0; j < 4; ++j) {
    const __m512i a = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x44);  // lanes 0,1 of groups 0,1
    const __m512i b = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xee);  // lanes 2,3
    const __m512i c = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x44);
    const __m512i d = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xee);
    t[j] = _mm512_shuffle_i32x4(a, c, 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(a, c, 0xdd);
    t[8 + j] = _mm512_shuffle_i32x4(b, d, 0x88);
    t[12 + j] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
  for (int i = 0; i < 16; ++i) {
    if (i < cols) _mm512_mask_storeu_epi32(dst + i * dst_stride, store, t[i]);
  }
}

}  // namespace

void Transpose32_avx512(const uint32_t* src, int64_t src_stride, uint32_t* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; c += 16) {
    const int w = static_cast<int>(cols - c < 16 ? cols - c : 16);
    for (int64_t r = 0; r < rows; r += 16) {
      const int h = static_cast<int>(rows - r < 16 ? rows - r : 16);
      if (w == 16 && h == 16) {
        Tile(src + r * src_stride + c, src_stride, dst + c * dst_stride + r, dst_stride, 16, 16);
      } else {
        Tile(src + r * src_stride + c, src_stride, dst + c * dst_stride + r, dst_stride, h, w);
      }
    }
  }
}

}  // namespace tenon::kernels::movement
