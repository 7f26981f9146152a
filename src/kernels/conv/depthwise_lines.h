// How a depthwise convolution is cut into the pieces of lines that the kernels of depthwise.h serve.
#ifndef TENON_KERNELS_CONV_DEPTHWISE_LINES_H_
#define TENON_KERNELS_CONV_DEPTHWISE_LINES_H_

#include "kernels/conv/depthwise.h"
#include "kernels/conv/plane.h"
#include "kernels/gemm/gemm.h"

namespace tenon::kernels::conv {

const DepthwiseKernels& SelectDepthwise(hw::IsaMask isa);

/// Columns and channels of one pass down the picture: the input under its window should stay in the L1 cache.
struct DepthwiseCut {
  DepthwiseCut(const Plane& plane, int64_t lanes);
  int64_t columns, channels;
  int64_t line_grain;   ///< lines that are worth another thread
};

/// What the lines do of an activation themselves: all of it unless needs_rest, which is then for the caller.
struct DepthwiseActivation {
  explicit DepthwiseActivation(const gemm::Activation& f)
      : clamp(f), hard_swish(f.kind == gemm::Act::kHardSwish), needs_rest(clamp.needs_rest && !hard_swish) {}
  gemm::Clamp clamp;
  bool hard_swish, needs_rest;
};

/// What is the same for all lines.
template <typename Element>
DepthwiseLineOf<Element> DepthwiseLineFor(const Plane& p, const DepthwiseActivation& activation, int64_t w_step) {
  DepthwiseLineOf<Element> d{};
  d.lo = activation.clamp.lo;
  d.hi = activation.clamp.hi;
  d.hard_swish = activation.hard_swish;
  d.scale = activation.clamp.rest.post_scale;
  d.shift = activation.clamp.rest.post_shift;
  d.row_step = p.dilation[1] * p.in[2] * p.c;
  d.w_step = w_step;
  d.kernel_w = p.kernel[2];
  d.stride = p.stride[2];
  d.dilation = p.dilation[2];
  d.pad = p.pad[2];
  d.in_w = p.in[2];
  d.pixel_step = p.c;
  return d;
}

/// Input, weights and residual of a line of outputs, from channel `c` on. `line` counts through all images.
template <typename Element>
void BindDepthwise(const Plane& p, const Element* x, const float* w, const Element* residual, int64_t line, int64_t c,
                   DepthwiseLineOf<Element>* d) {
  const int64_t first = line % p.out[1] * p.stride[1] - p.pad[1];
  const int64_t plane_out = line / p.out[1];   // image * out depth + depth
  const int64_t depth = plane_out % p.out[0] * p.stride[0] - p.pad[0];
  int64_t k0 = 0;
  int64_t k1 = depth >= 0 && depth < p.in[0] ? p.kernel[1] : 0;
  while (k0 < k1 && first + k0 * p.dilation[1] < 0) ++k0;
  while (k1 > k0 && first + (k1 - 1) * p.dilation[1] >= p.in[1]) --k1;
  d->rows = k1 - k0;
  d->x = x + ((plane_out / p.out[0] * p.in[0] + depth) * p.in[1] + first + k0 * p.dilation[1]) * p.in[2] * p.c + c;
  d->w = w + k0 * d->kernel_w * d->w_step + c;
  d->residual = residual != nullptr ? residual + line * p.out[2] * p.c + c : nullptr;
}

}  // namespace tenon::kernels::conv

#endif  // TENON_KERNELS_CONV_DEPTHWISE_LINES_H_
