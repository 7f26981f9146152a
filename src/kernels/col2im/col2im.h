// Col2Im: overlapping blocks, one a column, summed back into the image that they were cut from (the adjoint of im2col).
//
//   y[n, c, i...] = sum over blocks b and block positions k with b * stride - pad_begin + k * dilation == i of
//                   x[n, c * K + index(k), index(b)]
//   x [n, c * K, L], image_shape [spatial], block_shape [spatial] -> y [n, c, image_shape...]
//   K = product(block_shape), L = product of blocks[d] = (image[d] + pads[d] - dilation[d] * (block[d] - 1) - 1) / stride[d] + 1
//
// Attributes: dilations, strides (one an axis, default 1), pads (all beginnings, then all ends; default 0).
#ifndef TENON_KERNELS_COL2IM_COL2IM_H_
#define TENON_KERNELS_COL2IM_COL2IM_H_

#include "kernels/kernel.h"

namespace tenon::kernels::col2im {

std::span<const OpKernels> Operators();

inline constexpr int kMaxSpatial = kMaxRank - 2;

/// Parsed attributes; lists are empty when the attribute is absent.
struct Params {
  std::vector<int64_t> dilations, pads, strides;
};
Result<Params> ParseParams(std::string_view op, const Attrs& attrs);

/// One problem with concrete shapes.
struct Geometry {
  int spatial = 0;
  int64_t n = 0, c = 0, taps = 1, columns = 1, pixels = 1;
  int64_t image[kMaxSpatial], block[kMaxSpatial], blocks[kMaxSpatial];
  int64_t stride[kMaxSpatial], dilation[kMaxSpatial], pad[kMaxSpatial];  ///< pad: before the first pixel
};

/// kBadInput when operands contradict each other or the attributes.
Result<Geometry> Resolve(const Params& params, const Shape& x, std::span<const int64_t> image, std::span<const int64_t> block);

}  // namespace tenon::kernels::col2im

#endif  // TENON_KERNELS_COL2IM_COL2IM_H_
