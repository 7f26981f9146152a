// The inner functions of f32 pooling, one set for each instruction set. Light, for the ISA files.
#ifndef TENON_KERNELS_POOL_INNER_H_
#define TENON_KERNELS_POOL_INNER_H_

#include <cstdint>

namespace tenon::kernels::pool {

struct PoolInner {
  /// acc[i] = max(acc[i], x[i]) or acc[i] + x[i]; with `first`, acc[i] = x[i] (NaN counts as -inf for max).
  void (*accumulate)(bool max, bool first, const float* x, float* acc, int64_t n);
  /// y[i] = max or sum over k in [0, kernel) of row[i * stride + k * dilation], times scale[i] for sums (null: not scaled).
  /// Reads at most row[(n - 1) * stride + (kernel - 1) * dilation + 2 * 16 - 1].
  void (*slide)(bool max, const float* row, float* y, int64_t n, int64_t kernel, int64_t stride, int64_t dilation,
                const float* scale);
  /// y[c] = max over the taps x[r * row_step + q * col_step + c], or their sum times scale. rows * cols >= 1.
  void (*channels)(bool max, const float* x, int64_t rows, int64_t cols, int64_t row_step, int64_t col_step, int64_t channels,
                   float scale, float* y);
  /// The same for bf16, with f32 in between.
  void (*channels_bf16)(bool max, const uint16_t* x, int64_t rows, int64_t cols, int64_t row_step, int64_t col_step,
                        int64_t channels, float scale, uint16_t* y);
};
extern const PoolInner kPoolAvx2;
extern const PoolInner kPoolAvx512;

}  // namespace tenon::kernels::pool

#endif  // TENON_KERNELS_POOL_INNER_H_
