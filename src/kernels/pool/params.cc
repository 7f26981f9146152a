// Attributes, shape rules and window geometry of pooling.
#include <algorithm>

#include "kernels/kernel_util.h"
#include "kernels/pool/pool.h"

namespace tenon::kernels::pool {
namespace {

constexpr int64_t kMaxAttr = int64_t{1} << 31;

Status CheckAll(const char* name, const std::vector<int64_t>& values, size_t count, int64_t least) {
  if (values.size() != count) return BadInput("{} has {} values; allowed: {}", name, values.size(), count);
  for (const int64_t v : values) {
    if (v < least || v >= kMaxAttr) return BadInput("{} holds {}; allowed: {} to {}", name, v, least, kMaxAttr - 1);
  }
  return {};
}

Result<bool> IsNhwc(const Attrs& attrs) {
  const std::string layout = attrs.String("data_layout", "NCHW");
  if (layout != "NCHW" && layout != "NHWC") return BadInput("data_layout is '{}'; allowed: NCHW, NHWC", layout);
  return layout == "NHWC";
}

Result<AutoPad> ParseAutoPad(const Attrs& attrs) {
  const std::string s = attrs.String("auto_pad", "NOTSET");
  if (s == "NOTSET" || s.empty()) return AutoPad::kNotSet;
  if (s == "VALID") return AutoPad::kValid;
  if (s == "SAME_UPPER") return AutoPad::kSameUpper;
  if (s == "SAME_LOWER") return AutoPad::kSameLower;
  return BadInput("auto_pad is '{}'; allowed: NOTSET, VALID, SAME_UPPER, SAME_LOWER", s);
}

}  // namespace

Result<PoolParams> ParsePool(std::string_view op, const Attrs& attrs) {
  PoolParams p;
  p.kind = op == "MaxPool" ? Kind::kMax : op == "AveragePool" ? Kind::kAverage : Kind::kLp;
  p.kernel = attrs.Ints("kernel_shape");
  const size_t n = p.kernel.size();
  if (n == 0 || n > kMaxRank - 2) return BadInput("kernel_shape has {} values; allowed: 1 to {}", n, kMaxRank - 2);
  p.spatial = static_cast<int>(n);
  p.stride = attrs.Ints("strides", std::vector<int64_t>(n, 1));
  p.dilation = attrs.Ints("dilations", std::vector<int64_t>(n, 1));
  p.pads = attrs.Ints("pads", std::vector<int64_t>(2 * n, 0));
  TENON_RETURN_IF_ERROR(CheckAll("kernel_shape", p.kernel, n, 1));
  TENON_RETURN_IF_ERROR(CheckAll("strides", p.stride, n, 1));
  TENON_RETURN_IF_ERROR(CheckAll("dilations", p.dilation, n, 1));
  TENON_RETURN_IF_ERROR(CheckAll("pads", p.pads, 2 * n, 0));
  TENON_ASSIGN_OR_RETURN(p.auto_pad, ParseAutoPad(attrs));
  TENON_ASSIGN_OR_RETURN(p.nhwc, IsNhwc(attrs));
  if (p.auto_pad != AutoPad::kNotSet) std::fill(p.pads.begin(), p.pads.end(), 0);
  for (size_t i = 0; i < 2 * n; ++i) {
    const int64_t extent = (p.kernel[i % n] - 1) * p.dilation[i % n] + 1;
    if (p.pads[i] >= extent) return BadInput("pads hold {}; allowed: less than the window's extent, {}", p.pads[i], extent);
  }
  p.ceil = attrs.Int("ceil_mode", 0) != 0;
  p.count_include_pad = attrs.Int("count_include_pad", 0) != 0;
  p.column_major = attrs.Int("storage_order", 0) != 0;
  p.p = attrs.Int("p", 2);
  if (p.p < 1) return BadInput("p is {}; allowed: 1 or more", p.p);
  return p;
}

Result<GlobalParams> ParseGlobal(std::string_view op, const Attrs& attrs) {
  GlobalParams p;
  p.kind = op == "GlobalMaxPool" ? Kind::kMax : op == "GlobalAveragePool" ? Kind::kAverage : Kind::kLp;
  TENON_ASSIGN_OR_RETURN(p.nhwc, IsNhwc(attrs));
  p.p = attrs.Int("p", 2);
  if (p.p < 1) return BadInput("p is {}; allowed: 1 or more", p.p);
  return p;
}

Result<Dim> OutExtent(const PoolParams& params, int axis, const Dim& in) {
  const auto i = static_cast<size_t>(axis);
  const auto n = static_cast<size_t>(params.spatial);
  const int64_t extent = (params.kernel[i] - 1) * params.dilation[i] + 1;
  const int64_t stride = params.stride[i], begin = params.pads[i], end = params.pads[n + i];
  if (params.auto_pad == AutoPad::kSameUpper || params.auto_pad == AutoPad::kSameLower) return Dim::CeilDiv(in, stride);
  if (in.is_const() && in.value() + begin + end < extent) {
    return BadInput("spatial axis {} of {} with pads {} and {} is smaller than the window, {}", axis, in.value(), begin, end,
                    extent);
  }
  const Dim room = in + Dim(begin + end - extent);
  if (!params.ceil) return Dim::FloorDiv(room, stride) + Dim(1);
  const Dim out = Dim::CeilDiv(room, stride) + Dim(1);
  // A window starts behind the input only if the padding behind leaves room for it.
  if (end + stride <= extent) return out;
  return Dim::Min(out, Dim::CeilDiv(in + Dim(begin), stride));
}

Status ResolveAxes(const PoolParams& params, const Shape& x, Axis* axes) {
  if (x.rank() != params.spatial + 2) {
    return BadInput("x has rank {}; allowed with {} kernel extents: {}", x.rank(), params.spatial, params.spatial + 2);
  }
  const auto n = static_cast<size_t>(params.spatial);
  for (size_t i = 0; i < n; ++i) {
    Axis& a = axes[i];
    a = {x[static_cast<int>(i) + (params.nhwc ? 1 : 2)],
         0,
         params.kernel[i],
         params.stride[i],
         params.dilation[i],
         params.pads[i],
         params.pads[n + i]};
    TENON_ASSIGN_OR_RETURN(const Dim out, OutExtent(params, static_cast<int>(i), Dim(a.in)));
    a.out = out.value();
    if (params.auto_pad == AutoPad::kSameUpper || params.auto_pad == AutoPad::kSameLower) {
      const int64_t total = std::max<int64_t>(0, (a.out - 1) * a.stride + a.extent() - a.in);
      a.pad_begin = params.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
      a.pad_end = total - a.pad_begin;
    }
  }
  return {};
}

Shape PooledShape(const PoolParams& params, const Shape& x, const Axis* axes) {
  Shape s = x;
  for (int i = 0; i < params.spatial; ++i) s[i + (params.nhwc ? 1 : 2)] = axes[i].out;
  return s;
}

void Axis::Taps(int64_t o, int64_t* first, int64_t* last) const {
  const int64_t at = start(o);
  *first = at >= 0 ? 0 : std::min(kernel, (-at + dilation - 1) / dilation);
  *last = at >= in ? *first : std::max(*first, std::min(kernel, (in - at + dilation - 1) / dilation));
}

int64_t Axis::PaddedTaps(int64_t o) const {
  const int64_t room = in + pad_end - start(o);
  return room <= 0 ? 0 : std::min(kernel, (room + dilation - 1) / dilation);
}

Status InferPool(const ShapeArgs& args, std::string_view op) {
  TENON_ASSIGN_OR_RETURN(const PoolParams params, ParsePool(op, args.attrs));
  const ValueInfo& x = args.in[0];
  const bool indices = Wants(std::span<const ValueInfo>(args.out), 1);
  if (indices && params.nhwc) return BadInput("Indices are not given with data_layout NHWC");
  SymShape y;
  if (x.shape.has_rank()) {
    if (x.shape.rank() != params.spatial + 2) {
      return BadInput("x has rank {}; allowed with {} kernel extents: {}", x.shape.rank(), params.spatial, params.spatial + 2);
    }
    y = x.shape;
    for (int i = 0; i < params.spatial; ++i) {
      const int d = i + (params.nhwc ? 1 : 2);
      TENON_ASSIGN_OR_RETURN(y[d], OutExtent(params, i, x.shape[d]));
    }
  }
  SetOutput(args, 0, x.dtype, y);
  SetOutput(args, 1, DType::kI64, y);
  return {};
}

Status InferGlobal(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const bool nhwc, IsNhwc(args.attrs));
  const ValueInfo& x = args.in[0];
  SymShape y = x.shape;
  if (y.has_rank()) {
    if (y.rank() < 2) return BadInput("x has rank {}; allowed: 2 or more", y.rank());
    for (int i = nhwc ? 1 : 2; i < (nhwc ? y.rank() - 1 : y.rank()); ++i) y[i] = Dim(1);
  }
  SetOutput(args, 0, x.dtype, y);
  return {};
}

}  // namespace tenon::kernels::pool
