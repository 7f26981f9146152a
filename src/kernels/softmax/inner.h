// The inner functions of f32 softmax, one set for each instruction set. Light, for the ISA files.
#ifndef TENON_KERNELS_SOFTMAX_INNER_H_
#define TENON_KERNELS_SOFTMAX_INNER_H_

#include <cstdint>

namespace tenon::kernels::softmax {

enum class Kind { kSoftmax, kLogSoftmax, kHardmax };

struct SoftmaxInner {
  /// `rows` rows of n >= 1 contiguous values; y may be x. Not kHardmax.
  void (*rows)(Kind kind, const float* x, float* y, int64_t rows, int64_t n);
  /// `width` columns of n >= 1 values, `stride` apart; y may be x. Not kHardmax.
  void (*columns)(Kind kind, const float* x, float* y, int64_t n, int64_t stride, int64_t width);
};
extern const SoftmaxInner kSoftmaxAvx2;
extern const SoftmaxInner kSoftmaxAvx512;

}  // namespace tenon::kernels::softmax

#endif  // TENON_KERNELS_SOFTMAX_INNER_H_
