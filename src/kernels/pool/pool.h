// Pooling: MaxPool, AveragePool, LpPool (opset 22), GlobalAveragePool, GlobalMaxPool, GlobalLpPool, MaxUnpool, MaxRoiPool,
// RoiAlign.
//
// x is [batch, channels, spatial...]; with the attribute data_layout = "NHWC" (set by the layout pass on MaxPool, AveragePool and
// the Global pools) x and y are [batch, spatial..., channels].
//   output extent  floor or ceil((in + pads - ((kernel - 1) * dilation + 1)) / stride) + 1; with ceil_mode a window that would
//   start
//                  in the padding behind the input is dropped. auto_pad SAME_*: ceil(in / stride).
//   MaxPool        padding is never chosen; NaNs lose against numbers (the ONNX reference's `>`); a window of nothing but padding
//                  gives the least value. Indices are flat over x, in column-major order of the spatial axes with storage_order
//                  = 1.
//   AveragePool    the divisor counts real elements, or with count_include_pad the elements inside the padded input.
#ifndef TENON_KERNELS_POOL_POOL_H_
#define TENON_KERNELS_POOL_POOL_H_

#include <span>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/pool/inner.h"

namespace tenon::kernels::pool {

enum class Kind { kMax, kAverage, kLp };
enum class AutoPad { kNotSet, kValid, kSameUpper, kSameLower };

struct PoolParams {
  Kind kind = Kind::kMax;
  int spatial = 0;  ///< number of spatial axes
  std::vector<int64_t> kernel, stride, dilation, pads;  ///< pads: all beginnings, then all ends
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil = false;
  bool count_include_pad = false;
  bool column_major = false;
  bool nhwc = false;
  int64_t p = 2;
};

struct GlobalParams {
  Kind kind = Kind::kAverage;
  bool nhwc = false;
  int64_t p = 2;
};

/// One spatial axis of one run.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  int64_t extent() const { return (kernel - 1) * dilation + 1; }  ///< of the window
  int64_t start(int64_t o) const { return o * stride - pad_begin; }
  /// Taps [first, last) of window `o` that fall on the input.
  void Taps(int64_t o, int64_t* first, int64_t* last) const;
  /// Taps of window `o` inside the padded input.
  int64_t PaddedTaps(int64_t o) const;
};

Result<PoolParams> ParsePool(std::string_view op, const Attrs& attrs);
Result<GlobalParams> ParseGlobal(std::string_view op, const Attrs& attrs);

/// The output extent of one axis, symbolically. kBadInput when the window exceeds the padded input.
Result<Dim> OutExtent(const PoolParams& params, int axis, const Dim& in);
/// All axes of a run; `axes` has room for params.spatial.
Status ResolveAxes(const PoolParams& params, const Shape& x, Axis* axes);
/// [batch, channels, out...] in the layout of x.
Shape PooledShape(const PoolParams& params, const Shape& x, const Axis* axes);

Status InferPool(const ShapeArgs& args, std::string_view op);
Status InferGlobal(const ShapeArgs& args);

/// MaxPool of int8 and uint8, channels last.
Refusal CanNhwcBytes(const Problem& problem);
Status RunNhwcBytes(const PoolParams& params, const RunArgs& args);

Status RunPoolReference(const PoolParams& params, const RunArgs& args);
Status RunGlobalReference(const GlobalParams& params, const RunArgs& args);

struct UnpoolParams {
  std::vector<int64_t> kernel, stride, pads;
};
struct RoiPoolParams {
  int64_t height = 1, width = 1;
  float spatial_scale = 1;
};
struct RoiAlignParams {
  int64_t height = 1, width = 1;
  int64_t sampling_ratio = 0;
  float spatial_scale = 1;
  bool half_pixel = true;
  bool max = false;
};
Result<UnpoolParams> ParseUnpool(std::string_view op, const Attrs& attrs);
Result<RoiPoolParams> ParseRoiPool(std::string_view op, const Attrs& attrs);
Result<RoiAlignParams> ParseRoiAlign(std::string_view op, const Attrs& attrs);
Status InferUnpool(const ShapeArgs& args);
Status InferRoiPool(const ShapeArgs& args);
Status InferRoiAlign(const ShapeArgs& args);
Status RunUnpool(const UnpoolParams& params, const RunArgs& args);
Status RunRoiPool(const RoiPoolParams& params, const RunArgs& args);
Status RunRoiAlign(const RoiAlignParams& params, const RunArgs& args);

/// Types, shapes and batch indices of RoiAlign's inputs.
Status CheckRoiAlign(const RunArgs& args);
/// Where one roi samples its picture.
struct RoiGrid {
  int64_t batch = 0;
  double x = 0, y = 0;  ///< its first corner
  double bin_w = 0, bin_h = 0;  ///< extents of a bin
  double grid_w = 0, grid_h = 0;  ///< samples along a bin; not more than 0 when the roi is empty
};
Result<RoiGrid> ResolveRoi(const RoiAlignParams& params, const RunArgs& args, int64_t roi);

Refusal CanRoiAlignMaxF32(const Problem& problem);
Status RunRoiAlignMaxF32(const RoiAlignParams& params, const RunArgs& args);
Refusal CanRoiAlignF32(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeRoiAlignAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeRoiAlignAvx512(const Problem& problem);

std::span<const OpKernels> Operators();

}  // namespace tenon::kernels::pool

#endif  // TENON_KERNELS_POOL_POOL_H_
