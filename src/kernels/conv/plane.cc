#include "kernels/conv/plane.h"

#include <algorithm>

#include "kernels/refusals.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tenon::kernels::conv {
namespace {

constexpr int64_t kBlock = 16;
constexpr int64_t kGrain = 16 * 1024;  // elements worth another thread

void TransposeBlock(const float* from, int64_t rows, int64_t cols, int64_t from_stride, float* to, int64_t to_stride) {
  int64_t r = 0;
#if defined(__SSE__)
  for (; r + 4 <= rows; r += 4) {
    int64_t c = 0;
    for (; c + 4 <= cols; c += 4) {
      const float* p = from + r * from_stride + c;
      __m128 a = _mm_loadu_ps(p);
      __m128 b = _mm_loadu_ps(p + from_stride);
      __m128 d = _mm_loadu_ps(p + 2 * from_stride);
      __m128 e = _mm_loadu_ps(p + 3 * from_stride);
      _MM_TRANSPOSE4_PS(a, b, d, e);
      float* q = to + c * to_stride + r;
      _mm_storeu_ps(q, a);
      _mm_storeu_ps(q + to_stride, b);
      _mm_storeu_ps(q + 2 * to_stride, d);
      _mm_storeu_ps(q + 3 * to_stride, e);
    }
    for (; c < cols; ++c) {
      for (int64_t i = 0; i < 4; ++i) to[c * to_stride + r + i] = from[(r + i) * from_stride + c];
    }
  }
#endif
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) to[c * to_stride + r] = from[r * from_stride + c];
  }
}

}  // namespace

Plane::Plane(const Geometry& g) : n(g.n), c(g.c), oc(g.oc), group(g.group) {
  CHECK(g.spatial <= 3);
  for (int i = 0; i < g.spatial; ++i) {
    const int to = 3 - g.spatial + i;
    in[to] = g.in[i];
    out[to] = g.out[i];
    kernel[to] = g.kernel[i];
    stride[to] = g.stride[i];
    dilation[to] = g.dilation[i];
    pad[to] = g.pad[i];
  }
}

bool Plane::pointwise() const {
  for (int i = 0; i < 3; ++i) {
    if (kernel[i] != 1 || stride[i] != 1 || pad[i] != 0 || out[i] != in[i]) return false;
  }
  return true;
}

Refusal CanFast(const Problem& problem) {
  if (problem.in[0].dtype != DType::kF32 || problem.in[1].dtype == DType::kBF16) return kRefuseDType;
  return CheckFastRank(problem);
}

Refusal CheckFastRank(const Problem& problem) {
  for (int i = 0; i < 2; ++i) {
    const SymShape& s = problem.in[static_cast<size_t>(i)].shape;
    if (!s.has_rank()) continue;
    if (s.rank() < 3 || s.rank() > 5) return kRefuseRank;
    return nullptr;
  }
  return kRefuseShapeUnknown;
}

void Transpose(const float* from, int64_t count, int64_t rows, int64_t cols, float* to, hw::Team& team) {
  if (count == 0 || rows == 0 || cols == 0) return;
  const int64_t row_blocks = (rows + kBlock - 1) / kBlock;
  const int64_t grain = std::max<int64_t>(1, kGrain / (kBlock * cols));
  team.ParallelFor(count * row_blocks, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t matrix = i / row_blocks * rows * cols;
      const int64_t r = i % row_blocks * kBlock;
      const int64_t height = std::min(kBlock, rows - r);
      for (int64_t c = 0; c < cols; c += kBlock) {
        TransposeBlock(from + matrix + r * cols + c, height, std::min(kBlock, cols - c), cols, to + matrix + c * rows + r, rows);
      }
    }
  });
}

}  // namespace tenon::kernels::conv
