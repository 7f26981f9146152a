// DeformConv: convolution whose taps are displaced per output pixel, over any number of spatial axes.
//
//   y[n, oc, o] = bias[oc] + sum over c, tap of w[oc, c, tap] * mask[n, g, tap, o] * x[n, c, at o * stride - pad + tap * dilation
//   +
//                 offset[n, g, tap, :, o]],  g the offset group of c; x between pixels is interpolated linearly, outside it is 0
//   x [n, c, s...], w [oc, c / group, k...], offset [n, groups * taps * axes, o...], bias? [oc], mask? [n, groups * taps, o...]
#ifndef TENON_KERNELS_DEFORM_CONV_DEFORM_CONV_H_
#define TENON_KERNELS_DEFORM_CONV_DEFORM_CONV_H_

#include "kernels/kernel.h"

namespace tenon::kernels::deform_conv {

std::span<const OpKernels> Operators();

}  // namespace tenon::kernels::deform_conv

#endif  // TENON_KERNELS_DEFORM_CONV_DEFORM_CONV_H_
