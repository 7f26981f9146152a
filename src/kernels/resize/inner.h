// The inner functions of f32 resizing, one set for each instruction set. Light, for the ISA files.
#ifndef TENON_KERNELS_RESIZE_INNER_H_
#define TENON_KERNELS_RESIZE_INNER_H_

#include <cstdint>

namespace tenon::kernels::resize {

struct ResizeInner {
  /// y[i] = sum over t of weight[t] * x[index[t] * step + i], i < n.
  void (*blend)(const float* x, int64_t step, const int32_t* index, const float* weight, int64_t taps, float* y, int64_t n);
  /// y[i] = sum over t of weight[t * n + i] * x[index[t * n + i]], i < n; x has `in` elements; index is monotonic in i.
  void (*gather)(const float* x, int64_t in, const int32_t* index, const float* weight, int64_t taps, float* y, int64_t n);
  /// y[i] = sum over t of weight[t * n + i] * x[index[t * n + i]], i < n, in any order of indices. Where the weight is 0 nothing
  /// is read and nothing added, whatever x holds.
  void (*sample)(const float* x, const int32_t* index, const float* weight, int64_t taps, float* y, int64_t n);
  /// y[i] = x[index[i]], i < n.
  void (*pick)(const float* x, const int32_t* index, float* y, int64_t n);
  /// y[i] = x[i >> shift], i < n; shift in 1..3.
  void (*repeat)(const float* x, int shift, float* y, int64_t n);
};
extern const ResizeInner kResizeAvx2;
extern const ResizeInner kResizeAvx512;

}  // namespace tenon::kernels::resize

#endif  // TENON_KERNELS_RESIZE_INNER_H_
