// 4-byte matrix transposition in 8x8 register tiles.
#include <immintrin.h>

#include <cstdint>

namespace tenon::kernels::movement {
namespace {

// An 8x8 tile; `store` is the mask of the dst lanes (source rows) to write.
inline void Tile(const uint32_t* src, int64_t src_stride, uint32_t* dst, int64_t dst_stride) {
  __m256 r[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(src + i * src_stride));
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(reinterpret_cast<float*>(dst + i * dst_stride), _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(reinterpret_cast<float*>(dst + (i + 4) * dst_stride), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

inline void Edge(const uint32_t* src, int64_t src_stride, uint32_t* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) dst[c * dst_stride + r] = src[r * src_stride + c];
  }
}

}  // namespace

void Transpose32_avx2(const uint32_t* src, int64_t src_stride, uint32_t* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  const int64_t full_rows = rows & ~int64_t{7};
  int64_t c = 0;
  for (; c + 8 <= cols; c += 8) {
    for (int64_t r = 0; r < full_rows; r += 8) Tile(src + r * src_stride + c, src_stride, dst + c * dst_stride + r, dst_stride);
    if (full_rows < rows) {
      Edge(src + full_rows * src_stride + c, src_stride, dst + c * dst_stride + full_rows, dst_stride, rows - full_rows, 8);
    }
  }
  if (c < cols) Edge(src + c, src_stride, dst + c * dst_stride, dst_stride, rows, cols - c);
}

}  // namespace tenon::kernels::movement
