// Resize (opset 19), and its kin GridSample, AffineGrid and CenterCropPad.
//
// Resize works axis by axis: output position o of an axis is a weighted sum of `taps` input positions (one for nearest, two for
// linear, four for cubic, more with antialias). The tables of positions and weights are made once for a shape, in double;
// coordinates follow ONNX's reference evaluator, which settles what the text leaves open:
//   * with scales, lengths in align_corners, half_pixel_symmetric and pytorch_half_pixel are scale * length, unrounded;
//   * pytorch_half_pixel with a resized length of 1 samples at -0.5 (clamped), not at 0 (differs for cubic only);
//   * integer results are rounded half to even and saturated.
// Output extents: floor(in * scale) in f32, as ONNX's shape inference; with tf_crop_and_resize and scales,
// floor(in * (roi_end - roi_start) * scale).
//
// data_layout = "NHWC" (set by the layout pass, rank 4 only): x and y are [batch, height, width, channels]; axes, roi, scales and
// sizes keep their NCHW order.
#ifndef TENON_KERNELS_RESIZE_RESIZE_H_
#define TENON_KERNELS_RESIZE_RESIZE_H_

#include <span>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/resize/inner.h"

namespace tenon::kernels::resize {

enum class Mode { kNearest, kLinear, kCubic };
enum class Nearest { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };
enum class Transform { kHalfPixel, kHalfPixelSymmetric, kPytorchHalfPixel, kAlignCorners, kAsymmetric, kTfCropAndResize };
enum class Aspect { kStretch, kNotLarger, kNotSmaller };

struct ResizeParams {
  Mode mode = Mode::kNearest;
  Nearest nearest = Nearest::kRoundPreferFloor;
  Transform transform = Transform::kHalfPixel;
  Aspect aspect = Aspect::kStretch;
  bool antialias = false, exclude_outside = false, nhwc = false;
  double cubic_a = -0.75;
  float extrapolation = 0;
  std::vector<int64_t> axes;  ///< empty: all
};

/// One axis: y[o] = sum over t of weight[o * taps + t] * x[index[o * taps + t]].
struct AxisTable {
  int64_t in = 0, out = 0, taps = 1;
  bool identity = true;
  std::vector<int32_t> index;  ///< within [0, in)
  std::vector<double> weight;
  std::vector<float> weight_f32;
  std::vector<int32_t> index_by_tap;  ///< the same, [taps][out]: for sums over neighbouring outputs
  std::vector<float> weight_by_tap;
  std::vector<bool> outside;  ///< tf_crop_and_resize: the position takes extrapolation_value; empty otherwise
};

/// Tables of all axes of x, in x's own layout.
struct Plan final : ShapeState {
  std::vector<AxisTable> axes;
  bool any_outside = false;
};

Result<ResizeParams> ParseResize(std::string_view op, const Attrs& attrs);
Status InferResize(const ShapeArgs& args);

/// Output shape from concrete inputs (roi, scales, sizes are in[1..3], absent or empty alike).
Result<Shape> ResizedShape(const ResizeParams& params, std::span<const View> in);
Result<std::unique_ptr<Plan>> MakePlan(const ResizeParams& params, std::span<const View> in, const Shape& out);

/// The plan, or null where the shape of the result or what it depends on is not known yet.
Result<std::unique_ptr<Plan>> PlanAhead(const ResizeParams& params, std::span<const View> in, const Shape& out);

/// x as [count] planes of [height][width][inner], of which height and width are resized.
struct Planes {
  int64_t count = 0, inner = 1;
  const AxisTable* height = nullptr;
  const AxisTable* width = nullptr;
};
/// False unless one axis or two neighbours change, whatever stands before and behind them. `p` points into `plan`.
bool FitPlanes(const Shape& x, const Plan& plan, Planes* p);

Status RunResizeReference(const ResizeParams& params, const Plan& plan, const RunArgs& args, const MutView& y);

struct GridParams {
  Mode mode = Mode::kLinear;
  enum class Padding { kZeros, kBorder, kReflection } padding = Padding::kZeros;
  bool align_corners = false;
};
Result<GridParams> ParseGrid(std::string_view op, const Attrs& attrs);
Status InferGrid(const ShapeArgs& args);
Status RunGridReference(const GridParams& params, const RunArgs& args);
template <const ResizeInner* kInner>
Status RunGridFast(const GridParams& params, const RunArgs& args);
extern template Status RunGridFast<&kResizeAvx2>(const GridParams& params, const RunArgs& args);
extern template Status RunGridFast<&kResizeAvx512>(const GridParams& params, const RunArgs& args);

/// One spatial axis of what a grid samples from; positions beyond [lo, hi] are padding.
struct GridAxis {
  int64_t length = 0;
  double lo = 0, hi = 0;
};
GridAxis MakeGridAxis(const GridParams& params, int64_t length);

/// Neighbours of one position along one axis with their weights; index -1: a zero.
struct GridTaps {
  int count = 0;
  int64_t index[4] = {};
  double weight[4] = {};
};
/// `n` is the grid's number: -1 and 1 are the ends of the axis.
GridTaps TapsOf(const GridParams& params, const GridAxis& axis, double n);

struct AffineParams {
  bool align_corners = false;
};
Result<AffineParams> ParseAffine(std::string_view op, const Attrs& attrs);
Status InferAffine(const ShapeArgs& args);
Status RunAffineReference(const AffineParams& params, const RunArgs& args);

struct CropParams {
  std::vector<int64_t> axes;
  bool all = true;
};
Result<CropParams> ParseCrop(std::string_view op, const Attrs& attrs);
Status InferCrop(const ShapeArgs& args);
Status RunCropReference(const CropParams& params, const RunArgs& args);

std::span<const OpKernels> Operators();

}  // namespace tenon::kernels::resize

#endif  // TENON_KERNELS_RESIZE_RESIZE_H_
