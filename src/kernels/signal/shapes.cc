// Shape rules of the signal family, and the geometry of a run.
#include <algorithm>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/signal/signal.h"

namespace tenon::kernels::signal {
namespace {

Status CheckFloat(const ShapeArgs& args, size_t i) {
  if (!args.Has(i) || args.in[i].dtype == DType::kUndefined || IsPlainFloat(args.in[i].dtype)) return {};
  return BadInput("input {} is {}; a float type needed", i, DTypeName(args.in[i].dtype));
}

Status CheckInt(const ShapeArgs& args, size_t i) {
  if (!args.Has(i)) return {};
  const DType t = args.in[i].dtype;
  if (t != DType::kUndefined && t != DType::kI32 && t != DType::kI64) {
    return BadInput("input {} is {}; int32 or int64 needed", i, DTypeName(t));
  }
  return {};
}

// The one element of a scalar input; unknown when it is not known yet. Absent: `fallback`.
Result<Dim> Scalar(const ShapeArgs& args, size_t i, Dim fallback, const char* what) {
  if (!args.Has(i)) return fallback;
  const auto elements = KnownElements(args.in[i]);
  if (!elements) return Dim::Unknown();
  if (elements->size() != 1) return BadInput("{} has {} elements; a scalar needed", what, elements->size());
  return (*elements)[0];
}

Status CheckLength(const Dim& n, const char* what, int64_t low) {
  if (n.is_const() && (n.value() < low || n.value() > kMaxLength)) {
    return BadInput("{} is {}; allowed: {} to {}", what, n.value(), low, kMaxLength);
  }
  return {};
}

Status InferDftOutput(const ShapeArgs& args, bool inverse, bool onesided) {
  const SymShape& x = args.in[0].shape;
  if (!x.has_rank()) {
    SetOutput(args, 0, args.in[0].dtype, SymShape());
    return {};
  }
  if (x.rank() < 2) return BadInput("input of shape {}; rank 2 and more needed", x.ToString());
  const Dim& last = x[x.rank() - 1];
  if (last.is_const() && !last.Is(1) && !last.Is(2))
    return BadInput("input of shape {}; the last axis must be 1 or 2", x.ToString());
  if (onesided && last.Is(inverse ? 1 : 2)) {
    return BadInput("input of shape {}; onesided {} takes {} input", x.ToString(), inverse ? "inverse" : "forward",
                    inverse ? "complex" : "real");
  }
  TENON_ASSIGN_OR_RETURN(const Dim axis_value, Scalar(args, 2, Dim(-2), "axis"));
  std::vector<Dim> y(static_cast<size_t>(x.rank()), Dim::Unknown());
  y.back() = onesided && inverse ? 1 : 2;
  if (axis_value.is_const()) {
    TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_value.value(), x.rank()));
    if (axis == x.rank() - 1) return BadInput("axis {}; the last axis holds real and imaginary parts", axis_value.value());
    const Dim natural = onesided && inverse ? (x[axis] - 1) * Dim(2) : x[axis];
    TENON_ASSIGN_OR_RETURN(const Dim n, Scalar(args, 1, natural, "dft_length"));
    TENON_RETURN_IF_ERROR(CheckLength(n, "dft_length", 1));
    for (int i = 0; i < x.rank() - 1; ++i) y[static_cast<size_t>(i)] = x[i];
    y[static_cast<size_t>(axis)] = onesided && !inverse ? Dim::FloorDiv(n, 2) + 1 : n;
  }
  SetOutput(args, 0, args.in[0].dtype, SymShape(std::move(y)));
  return {};
}

int64_t IntOf(const View& v) {
  return static_cast<int64_t>(LoadDouble(v.dtype, v.data, 0));
}

}  // namespace

Status InferDft(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckFloat(args, 0));
  TENON_RETURN_IF_ERROR(CheckInt(args, 1));
  TENON_RETURN_IF_ERROR(CheckInt(args, 2));
  return InferDftOutput(args, args.attrs.Int("inverse", 0) != 0, args.attrs.Int("onesided", 0) != 0);
}

Status InferStft(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckFloat(args, 0));
  TENON_RETURN_IF_ERROR(CheckFloat(args, 2));
  TENON_RETURN_IF_ERROR(CheckInt(args, 1));
  TENON_RETURN_IF_ERROR(CheckInt(args, 3));
  const bool onesided = args.attrs.Int("onesided", 1) != 0;
  const SymShape& x = args.in[0].shape;
  if (!x.has_rank()) {
    SetOutput(args, 0, args.in[0].dtype, SymShape::OfRank(4));
    return {};
  }
  if (x.rank() != 3) return BadInput("signal of shape {}; [batch, length, 1 or 2] needed", x.ToString());
  if (x[2].is_const() && !x[2].Is(1) && !x[2].Is(2))
    return BadInput("signal of shape {}; the last axis must be 1 or 2", x.ToString());
  if (onesided && x[2].Is(2)) return BadInput("signal of shape {}; onesided takes real input", x.ToString());
  Dim window = Dim::Unknown();
  if (args.Has(2) && args.in[2].shape.has_rank()) {
    if (args.in[2].dtype != args.in[0].dtype)
      return BadInput("window is {} and signal {}; equal types needed", DTypeName(args.in[2].dtype), DTypeName(args.in[0].dtype));
    if (args.in[2].shape.rank() != 1) return BadInput("window of shape {}; one axis needed", args.in[2].shape.ToString());
    window = args.in[2].shape[0];
  }
  TENON_ASSIGN_OR_RETURN(const Dim n, Scalar(args, 3, args.Has(2) ? window : x[1], "frame_length"));
  TENON_ASSIGN_OR_RETURN(const Dim step, Scalar(args, 1, Dim::Unknown(), "frame_step"));
  TENON_RETURN_IF_ERROR(CheckLength(n, "frame_length", 1));
  TENON_RETURN_IF_ERROR(CheckLength(step, "frame_step", 1));
  if (window.is_const() && n.is_const() && !(window == n)) {
    return BadInput("window of {} samples and frame_length {}; equal lengths needed", window.value(), n.value());
  }
  if (x[1].is_const() && n.is_const() && x[1].value() < n.value()) {
    return BadInput("signal of {} samples is shorter than a frame of {}", x[1].value(), n.value());
  }
  const Dim frames = Dim::FloorDiv(x[1] - n, step) + 1;
  SetOutput(args, 0, args.in[0].dtype, SymShape({x[0], frames, onesided ? Dim::FloorDiv(n, 2) + 1 : n, Dim(2)}));
  return {};
}

Result<Transforms> ResolveDft(const Attrs& attrs, std::span<const View> in) {
  const View& x = in[0];
  const auto has = [&](size_t i) { return i < in.size() && in[i].present(); };
  const bool onesided = attrs.Int("onesided", 0) != 0;
  Transforms t;
  t.inverse = attrs.Int("inverse", 0) != 0;
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(has(2) ? IntOf(in[2]) : -2, x.shape.rank()));
  if (axis == x.shape.rank() - 1) return BadInput("axis {}; the last axis holds real and imaginary parts", axis);
  const int64_t width = x.shape.dim(-1);
  const int64_t extent = x.shape[axis];
  t.complex_in = width == 2;
  t.real_out = t.inverse && onesided;
  t.length = has(1) ? IntOf(in[1]) : t.real_out ? 2 * (extent - 1) : extent;
  if (t.length < 1 || t.length > kMaxLength) return BadInput("dft_length is {}; allowed: 1 to {}", t.length, kMaxLength);
  t.given = std::min(extent, t.real_out ? t.length / 2 + 1 : t.length);
  t.bins = onesided && !t.inverse ? t.length / 2 + 1 : t.length;
  const int64_t inner = x.shape.Product(axis + 1, x.shape.rank() - 1);
  const int64_t out_width = t.real_out ? 1 : 2;
  t.rows = x.shape.Product(0, axis) * inner;
  t.row_mod = std::max<int64_t>(1, inner);
  t.in_row = width;
  t.in_step = inner * width;
  t.in_batch = extent * t.in_step;
  t.out_row = out_width;
  t.out_step = inner * out_width;
  t.out_batch = t.bins * t.out_step;
  return t;
}

Result<Transforms> ResolveStft(const Attrs& attrs, std::span<const View> in) {
  const View& x = in[0];
  const auto has = [&](size_t i) { return i < in.size() && in[i].present(); };
  const int64_t step = IntOf(in[1]);
  Transforms t;
  t.length = has(3) ? IntOf(in[3]) : has(2) ? in[2].num_elements() : x.shape[1];
  if (t.length < 1 || t.length > x.shape[1])
    return BadInput("frame_length is {}; allowed: 1 to {} (the signal)", t.length, x.shape[1]);
  if (step < 1) return BadInput("frame_step is {}; at least 1 needed", step);
  if (has(2) && in[2].num_elements() != t.length) {
    return BadInput("window of {} samples and frame_length {}; equal lengths needed", in[2].num_elements(), t.length);
  }
  t.given = t.length;
  t.bins = attrs.Int("onesided", 1) != 0 ? t.length / 2 + 1 : t.length;
  const int64_t width = x.shape[2];
  t.complex_in = width == 2;
  t.row_mod = (x.shape[1] - t.length) / step + 1;
  t.rows = x.shape[0] * t.row_mod;
  t.in_batch = x.shape[1] * width;
  t.in_row = step * width;
  t.in_step = width;
  t.out_batch = t.row_mod * t.bins * 2;
  t.out_row = t.bins * 2;
  t.out_step = 2;
  return t;
}

}  // namespace tenon::kernels::signal
