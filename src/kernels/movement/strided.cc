#include "kernels/movement/strided.h"

#include <algorithm>
#include <cstring>

namespace tenon::kernels::movement {
namespace {

constexpr int64_t kGrainBytes = int64_t{1} << 17;  // work for one thread, in bytes moved

template <typename T>
void CopyLine(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t n) {
  if (dst_stride == 1 && src_stride == 0) {
    std::fill(dst, dst + n, *src);
  } else if (dst_stride == 1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * src_stride];
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

// Blocks of 16x16 keep both sides in the L1 cache for every element size.
template <typename T>
void TransposeBlocked(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  constexpr int64_t kBlock = 16;
  for (int64_t c0 = 0; c0 < cols; c0 += kBlock) {
    const int64_t c1 = std::min(cols, c0 + kBlock);
    for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
      const int64_t r1 = std::min(rows, r0 + kBlock);
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t r = r0; r < r1; ++r) dst[c * dst_stride + r] = src[r * src_stride + c];
      }
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

void StridedCopy::RunTransposed(char* dst, const char* src, int size, int axis, hw::Team& team, hw::IsaMask isa) const {
  StridedCopy outer = *this;
  const Dimension row = dims_[rank_ - 1];  // contiguous in dst
  const Dimension col = dims_[axis];       // contiguous in src
  std::copy(outer.dims_ + axis + 1, outer.dims_ + rank_ - 1, outer.dims_ + axis);
  outer.rank_ = rank_ - 2;
  int64_t n = 1;
  for (int i = 0; i < outer.rank_; ++i) n *= outer.dims_[i].extent;
  // One task is a band of columns of one matrix.
  constexpr int64_t kBand = 64;
  const int64_t bands = (col.extent + kBand - 1) / kBand;
  const int64_t task = std::min(kBand, col.extent) * row.extent * size;
  team.ParallelFor(n * bands, std::max<int64_t>(1, kGrainBytes / task), [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      // As many bands of the same matrix as this thread has.
      const int64_t band = begin % bands;
      const int64_t take = std::min(bands - band, end - begin);
      const int64_t c0 = band * kBand;
      const int64_t cols = std::min(col.extent, (band + take) * kBand) - c0;
      outer.ForOuter(outer.rank_, begin / bands, begin / bands + 1, [&](int64_t d, int64_t s) {
        char* out = dst + (d + c0 * col.dst) * size;
        const char* in = src + (s + c0) * size;
        if (size == 4) {
          const auto f = hw::Covers(isa, hw::kAvx512) ? Transpose32_avx512
                         : hw::Covers(isa, hw::kAvx2) ? Transpose32_avx2
                                                      : Transpose32_sse2;
          f(reinterpret_cast<const uint32_t*>(in), row.src, reinterpret_cast<uint32_t*>(out), col.dst, row.extent, cols);
          return;
        }
        DispatchSize(size, [&](auto* tag) {
          using T = std::remove_pointer_t<decltype(tag)>;
          TransposeBlocked(reinterpret_cast<const T*>(in), row.src, reinterpret_cast<T*>(out), col.dst, row.extent, cols);
        });
      });
      begin += take;
    }
  });
}

void StridedCopy::Run(void* dst, const void* src, int size, hw::Team& team, hw::IsaMask isa) {
  if (!Collapse()) return;
  if (rank_ == 0) return CopyElements(dst, src, 1, size);
  if (rank_ == 1 && dims_[0].dst == 1 && dims_[0].src == 1) {
    return CopyElementsParallel(dst, src, dims_[0].extent, size, team);
  }
  Widen(&size);
  if (rank_ == 1) return RunRows(static_cast<char*>(dst), static_cast<const char*>(src), size, team);
  const int axis = size == kStringSize ? -1 : TransposeAxis();
  if (axis >= 0) return RunTransposed(static_cast<char*>(dst), static_cast<const char*>(src), size, axis, team, isa);
  RunRows(static_cast<char*>(dst), static_cast<const char*>(src), size, team);
}

void Transpose32_sse2(const uint32_t* src, int64_t src_stride, uint32_t* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  TransposeBlocked(src, src_stride, dst, dst_stride, rows, cols);
}

}  // namespace tenon::kernels::movement
