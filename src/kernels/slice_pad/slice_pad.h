// Slice (boxes with steps out of a tensor) and Pad (borders around one), for every element type.
#ifndef TENON_KERNELS_SLICE_PAD_SLICE_PAD_H_
#define TENON_KERNELS_SLICE_PAD_SLICE_PAD_H_

#include "kernels/kernel.h"

namespace tenon::kernels::slice_pad {

std::span<const OpKernels> Operators();

/// Inputs data, starts, ends, axes (default 0..n-1), steps (default 1), with NumPy's clamping of starts and ends.
Status InferSlice(const ShapeArgs& args);

/// Inputs data, pads (all begins, then all ends), constant_value, axes; attribute `mode`: constant, reflect, edge, wrap.
/// A negative pad crops, before anything is padded; cropping more than the axis has is kBadInput, and so is a reflect pad
/// larger than the (cropped) extent - 1 or an edge or wrap pad of nothing.
Status InferPad(const ShapeArgs& args);

/// One axis of a slice after clamping: `count` elements from `start` on, `step` apart. All inside [0, extent).
struct AxisRange {
  int64_t start = 0;
  int64_t count = 0;
  int64_t step = 1;
};
/// Safe for any int64 values; `step` != 0.
AxisRange ClampRange(int64_t start, int64_t end, int64_t step, int64_t extent);

}  // namespace tenon::kernels::slice_pad

#endif  // TENON_KERNELS_SLICE_PAD_SLICE_PAD_H_
