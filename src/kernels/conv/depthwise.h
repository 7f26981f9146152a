// Depthwise convolution, channels last: a piece of a line of outputs. Plain types only, because files compiled for an
// instruction set include it.
#ifndef TENON_KERNELS_CONV_DEPTHWISE_H_
#define TENON_KERNELS_CONV_DEPTHWISE_H_

#include <cstdint>

namespace tenon::kernels::conv {

/// y[ow][c] = act(bias[c] + residual[ow][c] + sum over kh, kw of x[kh][ow * stride - pad + kw * dilation][c] * w[kh][kw][c])
/// for c in [0, channels); x's columns outside [0, in_w) count as 0; kh runs over the rows that lie inside the picture. Element
/// is float, or uint16_t for bf16. act clamps to [lo, hi], or is scale * HardSwish(v) + shift.
template <typename Element>
struct DepthwiseLineOf {
  const Element* x;          ///< column 0 of the first kernel row that lies inside the picture
  int64_t row_step;
  const float* w;            ///< of that kernel row
  int64_t w_step;            ///< channels rounded up to whole vectors
  int64_t rows;              ///< kernel rows inside the picture
  int64_t kernel_w;
  int64_t stride, dilation, pad;
  int64_t in_w;
  int64_t begin, end;        ///< outputs [begin, end) of the line
  int64_t channels;          ///< of this call; the pointers may start at any channel
  int64_t pixel_step;        ///< elements from pixel to pixel of x and residual
  void* y;                   ///< of output `begin`: Element, or float when y_f32
  bool y_f32;
  int64_t y_step;
  const float* bias;         ///< or null
  const Element* residual;   ///< of output 0 of the line, or null
  float lo, hi;
  bool hard_swish;
  float scale, shift;
};
using DepthwiseLine = DepthwiseLineOf<float>;
using DepthwiseLineBf16 = DepthwiseLineOf<uint16_t>;

struct DepthwiseKernels {
  void (*f32)(const DepthwiseLine&);   ///< null in kDepthwiseAvx512Bf16: kDepthwiseAvx512 has it
  void (*bf16)(const DepthwiseLineBf16&);
};
extern const DepthwiseKernels kDepthwisePortable;
#if defined(__x86_64__)
extern const DepthwiseKernels kDepthwiseAvx2;
extern const DepthwiseKernels kDepthwiseAvx512;
extern const DepthwiseKernels kDepthwiseAvx512Bf16;
#endif

}  // namespace tenon::kernels::conv

#endif  // TENON_KERNELS_CONV_DEPTHWISE_H_
