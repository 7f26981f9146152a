#include "kernels/movement/strided.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace tenon::kernels::movement {
namespace {

constexpr int64_t kGrainBytes = int64_t{1} << 17;  // work for one thread, in bytes moved

#ifdef __SSE2__
inline __m128 LoadFour(const uint32_t* src) {
  return _mm_loadu_ps(reinterpret_cast<const float*>(src));
}
// Elements 0, 2, 4, 6 and 1, 3, 5, 7 of the eight 4-byte ones at `src`.
inline __m128 EvenOf(const uint32_t* src) {
  return _mm_shuffle_ps(LoadFour(src), LoadFour(src + 4), 0x88);
}
inline __m128 OddOf(const uint32_t* src) {
  return _mm_shuffle_ps(LoadFour(src), LoadFour(src + 4), 0xdd);
}
inline void StoreFour(uint32_t* dst, __m128 v) {
  _mm_storeu_ps(reinterpret_cast<float*>(dst), v);
}
// Four pixels of three planes: a0 b0 c0 a1, b1 c1 a2 b2, c2 a3 b3 c3.
inline void InterleaveFour(const uint32_t* src, int64_t plane, uint32_t* dst) {
  const __m128 a = LoadFour(src), b = LoadFour(src + plane), c = LoadFour(src + 2 * plane);
  const __m128 c0_a1 = _mm_shuffle_ps(c, a, _MM_SHUFFLE(1, 1, 0, 0));
  const __m128 b1_c1 = _mm_shuffle_ps(b, c, _MM_SHUFFLE(1, 1, 1, 1));
  const __m128 c2_a3 = _mm_shuffle_ps(c, a, _MM_SHUFFLE(3, 3, 2, 2));
  const __m128 b3_c3 = _mm_shuffle_ps(b, c, _MM_SHUFFLE(3, 3, 3, 3));
  StoreFour(dst, _mm_shuffle_ps(_mm_unpacklo_ps(a, b), c0_a1, _MM_SHUFFLE(2, 0, 1, 0)));
  StoreFour(dst + 4, _mm_shuffle_ps(b1_c1, _mm_unpackhi_ps(a, b), _MM_SHUFFLE(1, 0, 2, 0)));
  StoreFour(dst + 8, _mm_shuffle_ps(c2_a3, b3_c3, _MM_SHUFFLE(2, 0, 2, 0)));
}

// Sixteen pixels of three planes of bytes. Four pixels, a byte left free in each, are closed up as two stores of 8 bytes of which
// 6 count: two more bytes are written behind the last pixel.
inline void StorePixels(__m128i four, uint8_t* dst) {
  const __m128i first = _mm_and_si128(four, _mm_set1_epi64x(0xffffff));
  const __m128i second = _mm_and_si128(_mm_srli_epi64(four, 8), _mm_set1_epi64x(0xffffff000000));
  const __m128i closed = _mm_or_si128(first, second);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(dst), closed);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(dst + 6), _mm_unpackhi_epi64(closed, closed));
}
inline void InterleaveSixteen(const uint8_t* src, int64_t plane, uint8_t* dst) {
  const auto load = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i * plane)); };
  const __m128i zero = _mm_setzero_si128(), a = load(0), b = load(1), c = load(2);
  const __m128i ab = _mm_unpacklo_epi8(a, b), ab2 = _mm_unpackhi_epi8(a, b);
  const __m128i c0 = _mm_unpacklo_epi8(c, zero), c2 = _mm_unpackhi_epi8(c, zero);
  StorePixels(_mm_unpacklo_epi16(ab, c0), dst);
  StorePixels(_mm_unpackhi_epi16(ab, c0), dst + 12);
  StorePixels(_mm_unpacklo_epi16(ab2, c2), dst + 24);
  StorePixels(_mm_unpackhi_epi16(ab2, c2), dst + 36);
}
#endif

template <typename T>
void CopyLine(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t n) {
  if (dst_stride == 1 && src_stride == 0) {
    std::fill(dst, dst + n, *src);
  } else if (dst_stride == 1) {
    int64_t i = 0;
#ifdef __SSE2__
    if constexpr (std::is_same_v<T, uint32_t>) {
      // The last of eight is not the line's: one more must follow.
      for (; src_stride == 2 && i + 5 <= n; i += 4) StoreFour(dst + i, EvenOf(src + 2 * i));
    }
#endif
    for (; i < n; ++i) dst[i] = src[i * src_stride];
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

// A matrix with few rows (interleaving) or few columns (the reverse): one loop with the short side unrolled.
template <int kRows, typename T>
void Interleave(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t cols) {
  int64_t c = 0;
#ifdef __SSE2__
  if constexpr (kRows == 3 && std::is_same_v<T, uint32_t>) {
    for (; dst_stride == 3 && c + 4 <= cols; c += 4) InterleaveFour(src + c, src_stride, dst + 3 * c);
  }
  if constexpr (kRows == 3 && std::is_same_v<T, uint8_t>) {
    for (; dst_stride == 3 && c + 17 <= cols; c += 16) InterleaveSixteen(src + c, src_stride, dst + 3 * c);
  }
#endif
  for (; c < cols; ++c) {
    for (int r = 0; r < kRows; ++r) dst[c * dst_stride + r] = src[r * src_stride + c];
  }
}
template <int kCols, typename T>
void Deinterleave(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows) {
  int64_t r = 0;
#ifdef __SSE2__
  if constexpr (kCols == 2 && std::is_same_v<T, uint32_t>) {
    for (; src_stride == 2 && r + 4 <= rows; r += 4) {
      StoreFour(dst + r, EvenOf(src + 2 * r));
      StoreFour(dst + dst_stride + r, OddOf(src + 2 * r));
    }
  }
#endif
  for (; r < rows; ++r) {
    for (int c = 0; c < kCols; ++c) dst[c * dst_stride + r] = src[r * src_stride + c];
  }
}
template <typename T>
bool TransposeThin(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  switch (rows) {
    case 2: return Interleave<2>(src, src_stride, dst, dst_stride, cols), true;
    case 3: return Interleave<3>(src, src_stride, dst, dst_stride, cols), true;
    case 4: return Interleave<4>(src, src_stride, dst, dst_stride, cols), true;
    default: break;
  }
  switch (cols) {
    case 2: return Deinterleave<2>(src, src_stride, dst, dst_stride, rows), true;
    case 3: return Deinterleave<3>(src, src_stride, dst, dst_stride, rows), true;
    case 4: return Deinterleave<4>(src, src_stride, dst, dst_stride, rows), true;
    default: return false;
  }
}

// One block that is small enough for the L1 cache on both sides.
template <typename T>
void TransposeBlock(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) dst[c * dst_stride + r] = src[r * src_stride + c];
  }
}

#ifdef __SSE2__
// 2-byte elements in 8x8 register tiles.
void TransposeBlock(const uint16_t* src, int64_t src_stride, uint16_t* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  const int64_t full_rows = rows & ~int64_t{7};
  const int64_t full_cols = cols & ~int64_t{7};
  for (int64_t c = 0; c < full_cols; c += 8) {
    for (int64_t r = 0; r < full_rows; r += 8) {
      __m128i a[8], b[8];
      for (int i = 0; i < 8; ++i) a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + (r + i) * src_stride + c));
      for (int i = 0; i < 4; ++i) {
        b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]);
        b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
      }
      for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm_unpacklo_epi16(b[i], b[i + 4]);
        a[2 * i + 1] = _mm_unpackhi_epi16(b[i], b[i + 4]);
      }
      for (int i = 0; i < 4; ++i) {
        b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]);
        b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
      }
      for (int i = 0; i < 8; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + (c + i) * dst_stride + r), b[i]);
    }
  }
  TransposeBlock<uint16_t>(src + full_rows * src_stride, src_stride, dst + full_rows, dst_stride, rows - full_rows, cols);
  TransposeBlock<uint16_t>(src + full_cols, src_stride, dst + full_cols * dst_stride, dst_stride, full_rows, cols - full_cols);
}

// 4-byte elements in 4x4 register tiles.
void TransposeBlock(const uint32_t* src, int64_t src_stride, uint32_t* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  const int64_t full_rows = rows & ~int64_t{3};
  const int64_t full_cols = cols & ~int64_t{3};
  const auto load = [&](int64_t r, int64_t c) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + r * src_stride + c));
  };
  const auto store = [&](int64_t c, int64_t r, __m128i v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + c * dst_stride + r), v);
  };
  for (int64_t c = 0; c < full_cols; c += 4) {
    for (int64_t r = 0; r < full_rows; r += 4) {
      const __m128i a = load(r, c), b = load(r + 1, c), d = load(r + 2, c), e = load(r + 3, c);
      const __m128i ab = _mm_unpacklo_epi32(a, b), de = _mm_unpacklo_epi32(d, e);
      const __m128i ab2 = _mm_unpackhi_epi32(a, b), de2 = _mm_unpackhi_epi32(d, e);
      store(c, r, _mm_unpacklo_epi64(ab, de));
      store(c + 1, r, _mm_unpackhi_epi64(ab, de));
      store(c + 2, r, _mm_unpacklo_epi64(ab2, de2));
      store(c + 3, r, _mm_unpackhi_epi64(ab2, de2));
    }
  }
  TransposeBlock<uint32_t>(src + full_rows * src_stride, src_stride, dst + full_rows, dst_stride, rows - full_rows, cols);
  TransposeBlock<uint32_t>(src + full_cols, src_stride, dst + full_cols * dst_stride, dst_stride, full_rows, cols - full_cols);
}
#endif

// Blocks of 32x32: whole cache lines on both sides for every element size, and few streams at a time. Wider register tiles
// (8x8, 16x16 with AVX2 and AVX-512) keep more streams open and are slower for it, in and out of cache.
template <typename T>
void TransposeBlocked(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  if (TransposeThin(src, src_stride, dst, dst_stride, rows, cols)) return;
  constexpr int64_t kBlock = 32;
  for (int64_t r = 0; r < rows; r += kBlock) {
    for (int64_t c = 0; c < cols; c += kBlock) {
      TransposeBlock(src + r * src_stride + c, src_stride, dst + c * dst_stride + r, dst_stride, std::min(kBlock, rows - r),
                     std::min(kBlock, cols - c));
    }
  }
}

void CopyBytes(char* dst, const char* src, size_t bytes) {
  if (bytes >= 8 && bytes <= 16) {  // two overlapping words
    uint64_t a, b;
    std::memcpy(&a, src, 8);
    std::memcpy(&b, src + bytes - 8, 8);
    std::memcpy(dst, &a, 8);
    std::memcpy(dst + bytes - 8, &b, 8);
  } else {
    std::memcpy(dst, src, bytes);
  }
}

}  // namespace

void RowMajorStrides(const Shape& shape, int64_t* strides) {
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i];
  }
}

// Drops extents of 1 and joins neighbours that are one run on both sides. False when there is nothing to copy.
bool StridedCopy::Collapse() {
  int kept = 0;
  for (int i = 0; i < rank_; ++i) {
    const Dimension d = dims_[i];
    if (d.extent == 0) return false;
    if (d.extent == 1) continue;
    if (kept > 0 && dims_[kept - 1].dst == d.extent * d.dst && dims_[kept - 1].src == d.extent * d.src) {
      dims_[kept - 1] = {dims_[kept - 1].extent * d.extent, d.dst, d.src};
    } else {
      dims_[kept++] = d;
    }
  }
  rank_ = kept;
  return true;
}

// Takes a short contiguous inner run as one wider element.
bool StridedCopy::Widen(int* size) {
  if (*size == kStringSize || rank_ < 2) return false;
  const Dimension inner = dims_[rank_ - 1];
  const int64_t bytes = inner.extent * *size;
  if (inner.dst != 1 || inner.src != 1 || bytes > 16 || (bytes & (bytes - 1)) != 0) return false;
  for (int i = 0; i < rank_ - 1; ++i) {
    if (dims_[i].dst % inner.extent != 0 || dims_[i].src % inner.extent != 0) return false;
  }
  --rank_;
  for (int i = 0; i < rank_; ++i) {
    dims_[i].dst /= inner.extent;
    dims_[i].src /= inner.extent;
  }
  *size = static_cast<int>(bytes);
  return true;
}

// The dimension along which the source is contiguous while the innermost one is contiguous in the destination; -1 if none.
int StridedCopy::TransposeAxis() const {
  if (rank_ < 2 || dims_[rank_ - 1].dst != 1 || dims_[rank_ - 1].src == 1) return -1;
  for (int i = 0; i < rank_ - 1; ++i) {
    if (dims_[i].src == 1) return i;
  }
  return -1;
}

// Calls f(dst_offset, src_offset) for the positions [begin, end) of the dimensions [0, outer_rank) in row-major order.
template <typename F>
void StridedCopy::ForOuter(int outer_rank, int64_t begin, int64_t end, F&& f) const {
  int64_t index[kMaxDims];
  int64_t dst = 0;
  int64_t src = 0;
  int64_t rest = begin;
  for (int i = outer_rank - 1; i >= 0; --i) {
    index[i] = rest % dims_[i].extent;
    rest /= dims_[i].extent;
    dst += index[i] * dims_[i].dst;
    src += index[i] * dims_[i].src;
  }
  for (int64_t n = begin; n < end; ++n) {
    f(dst, src);
    for (int i = outer_rank - 1; i >= 0; --i) {
      dst += dims_[i].dst;
      src += dims_[i].src;
      if (++index[i] < dims_[i].extent) break;
      dst -= dims_[i].extent * dims_[i].dst;
      src -= dims_[i].extent * dims_[i].src;
      index[i] = 0;
    }
  }
}

void StridedCopy::RunRows(char* dst, const char* src, int size, hw::Team& team) const {
  const Dimension inner = dims_[rank_ - 1];
  const int64_t bytes = StrideBytes(size);
  int64_t outer = 1;
  for (int i = 0; i < rank_ - 1; ++i) outer *= dims_[i].extent;
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / (inner.extent * bytes));
  const bool rows = inner.dst == 1 && inner.src == 1 && size != kStringSize;
  team.ParallelFor(outer, grain, [&](int64_t begin, int64_t end, int) {
    if (rows) {
      const auto run = static_cast<size_t>(inner.extent * size);
      ForOuter(rank_ - 1, begin, end, [&](int64_t d, int64_t s) { CopyBytes(dst + d * size, src + s * size, run); });
      return;
    }
    DispatchSize(size, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      auto* out = reinterpret_cast<T*>(dst);
      const auto* in = reinterpret_cast<const T*>(src);
      ForOuter(rank_ - 1, begin, end,
               [&](int64_t d, int64_t s) { CopyLine(out + d, inner.dst, in + s, inner.src, inner.extent); });
    });
  });
}

void StridedCopy::RunTransposed(char* dst, const char* src, int size, int axis, hw::Team& team) const {
  StridedCopy outer = *this;
  const Dimension row = dims_[rank_ - 1];  // contiguous in dst
  const Dimension col = dims_[axis];  // contiguous in src
  std::copy(outer.dims_ + axis + 1, outer.dims_ + rank_ - 1, outer.dims_ + axis);
  outer.rank_ = rank_ - 2;
  int64_t n = 1;
  for (int i = 0; i < outer.rank_; ++i) n *= outer.dims_[i].extent;
  // One task is a band of one matrix across its longer side.
  constexpr int64_t kBand = 64;
  const bool by_cols = col.extent >= row.extent;
  const int64_t length = by_cols ? col.extent : row.extent;
  const int64_t bands = (length + kBand - 1) / kBand;
  const int64_t task = std::min(kBand, length) * (by_cols ? row.extent : col.extent) * size;
  team.ParallelFor(n * bands, std::max<int64_t>(1, kGrainBytes / task), [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      // As many bands of the same matrix as this thread has.
      const int64_t band = begin % bands;
      const int64_t take = std::min(bands - band, end - begin);
      const int64_t from = band * kBand;
      const int64_t count = std::min(length, (band + take) * kBand) - from;
      const int64_t rows = by_cols ? row.extent : count;
      const int64_t cols = by_cols ? count : col.extent;
      outer.ForOuter(outer.rank_, begin / bands, begin / bands + 1, [&](int64_t d, int64_t s) {
        char* out = dst + (d + (by_cols ? from * col.dst : from)) * size;
        const char* in = src + (s + (by_cols ? from : from * row.src)) * size;
        DispatchSize(size, [&](auto* tag) {
          using T = std::remove_pointer_t<decltype(tag)>;
          TransposeBlocked(reinterpret_cast<const T*>(in), row.src, reinterpret_cast<T*>(out), col.dst, rows, cols);
        });
      });
      begin += take;
    }
  });
}

void StridedCopy::Run(void* dst, const void* src, int size, hw::Team& team) {
  if (!Collapse()) return;
  if (rank_ == 0) return CopyElements(dst, src, 1, size);
  if (rank_ == 1 && dims_[0].dst == 1 && dims_[0].src == 1) {
    return CopyElementsParallel(dst, src, dims_[0].extent, size, team);
  }
  Widen(&size);
  if (rank_ == 1) return RunRows(static_cast<char*>(dst), static_cast<const char*>(src), size, team);
  const int axis = size == kStringSize ? -1 : TransposeAxis();
  if (axis >= 0) return RunTransposed(static_cast<char*>(dst), static_cast<const char*>(src), size, axis, team);
  RunRows(static_cast<char*>(dst), static_cast<const char*>(src), size, team);
}

}  // namespace tenon::kernels::movement
