// The inner functions of f32 normalisations, one set for each instruction set. Light, for the ISA files.
#ifndef TENON_KERNELS_NORM_INNER_H_
#define TENON_KERNELS_NORM_INNER_H_

#include <cstdint>

namespace tenon::kernels::norm {

/// One row of a layer normalisation; pointers are null where there is no such operand. y may be x or skip.
struct LayerRow {
  const float* x;
  const float* skip;
  const float* bias;   ///< [n]
  const float* gamma;  ///< [n]
  const float* beta;   ///< [n]
  float* y;
  float* sum;   ///< x + skip + bias
  float* mean;  ///< one value
  float* inv;   ///< one value
  int64_t n;
  float epsilon;
  bool subtract_mean;
};

struct NormInner {
  void (*layer_row)(const LayerRow& row);
  /// Mean and variance (divided by n) of n >= 1 values.
  void (*statistics)(const float* x, int64_t n, float* mean, float* variance);
  /// y = x * a + b; y may be x.
  void (*affine)(const float* x, float* y, int64_t n, float a, float b);
  /// The same with a and b per element.
  void (*affine_each)(const float* x, float* y, int64_t n, const float* a, const float* b);
  /// y[i] = x[i] / (bias + scale * sum of x[i + k*stride]^2 for k in [first, last])^0.75, i < n
  void (*lrn075)(const float* x, float* y, int64_t n, int64_t stride, int64_t first, int64_t last, float scale, float bias);
};
extern const NormInner kNormAvx2;
extern const NormInner kNormAvx512;

}  // namespace tenon::kernels::norm

#endif  // TENON_KERNELS_NORM_INNER_H_
