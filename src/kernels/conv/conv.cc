#include "kernels/conv/conv.h"

#include <algorithm>

#include "kernels/gemm/result_type.h"
#include "kernels/gemm/rows.h"

namespace tenon::kernels::conv {
namespace {

constexpr gemm::TableRow kTable[] = {
#define KERNEL(op, name, isa, can, make) {op, {name, isa, can, make}},
#include "kernels/conv/kernels.inc"
#undef KERNEL
};

// Far beyond any real layer, and small enough that products of a few of them stay within int64.
constexpr int64_t kMaxAttribute = int64_t{1} << 24;
constexpr int64_t kMaxExtent = int64_t{1} << 32;

Result<std::vector<int64_t>> CheckedInts(const Attrs& attrs, std::string_view name, int64_t min) {
  std::vector<int64_t> v = attrs.Ints(name);
  for (int64_t x : v) {
    if (x < min || x > kMaxAttribute) return BadInput("attribute {} holds {}; allowed: {} to {}", name, x, min, kMaxAttribute);
  }
  if (v.size() > 2 * kMaxRank) return BadInput("attribute {} has {} entries; at most {} allowed", name, v.size(), 2 * kMaxRank);
  return v;
}

Status CheckLength(std::string_view name, const std::vector<int64_t>& v, size_t want) {
  if (v.empty() || v.size() == want) return Status::Ok();
  return BadInput("attribute {} has {} entries; {} needed for these spatial axes", name, v.size(), want);
}

Status CheckLengths(const Params& p, int spatial) {
  const auto s = static_cast<size_t>(spatial);
  TENON_RETURN_IF_ERROR(CheckLength("kernel_shape", p.kernel_shape, s));
  TENON_RETURN_IF_ERROR(CheckLength("strides", p.strides, s));
  TENON_RETURN_IF_ERROR(CheckLength("dilations", p.dilations, s));
  TENON_RETURN_IF_ERROR(CheckLength("pads", p.pads, 2 * s));
  TENON_RETURN_IF_ERROR(CheckLength("output_padding", p.output_padding, s));
  return CheckLength("output_shape", p.output_shape, s);
}

bool Disagree(const Dim& a, const Dim& b) {
  return a.is_const() && b.is_const() && a.value() != b.value();
}

struct Axis {
  Dim out;
  Dim pad;   // before the first element
};

Result<Axis> ConvAxis(const Params& p, int i, int spatial, const Dim& in, const Dim& kernel) {
  const Dim s = p.stride(i);
  const Dim eff = (kernel - 1) * Dim(p.dilation(i)) + 1;
  if (p.auto_pad == AutoPad::kSameUpper || p.auto_pad == AutoPad::kSameLower) {
    const Dim out = Dim::CeilDiv(in, s);
    if (!in.is_const() || !eff.is_const()) return Axis{out, Dim::Unknown()};
    const int64_t total = std::max<int64_t>(0, (out.value() - 1) * s.value() + eff.value() - in.value());
    return Axis{out, p.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2};
  }
  const bool padded = p.auto_pad == AutoPad::kNotSet && !p.pads.empty();
  const int64_t begin = padded ? p.pads[static_cast<size_t>(i)] : 0;
  const int64_t end = padded ? p.pads[static_cast<size_t>(i + spatial)] : 0;
  const Dim room = in + Dim(begin + end) - eff;
  if (room.is_const() && room.value() < 0) {
    return BadInput("kernel spans {} on spatial axis {} but the padded input has {}", eff.ToString(), i,
                    (in + Dim(begin + end)).ToString());
  }
  return Axis{Dim::FloorDiv(room, s) + 1, begin};
}

Result<Axis> TransposeAxis(const Params& p, int i, int spatial, const Dim& in, const Dim& kernel) {
  const Dim s = p.stride(i);
  const int64_t extra = p.output_padding.empty() ? 0 : p.output_padding[static_cast<size_t>(i)];
  const Dim full = s * (in - 1) + Dim(extra) + (kernel - 1) * Dim(p.dilation(i)) + 1;
  const bool same = p.auto_pad == AutoPad::kSameUpper || p.auto_pad == AutoPad::kSameLower;
  if (!p.output_shape.empty() || same) {
    const Dim out = !p.output_shape.empty() ? Dim(p.output_shape[static_cast<size_t>(i)]) : in * s;
    const Dim total = full - out;
    if (!total.is_const()) return Axis{out, Dim::Unknown()};
    const int64_t t = std::max<int64_t>(0, total.value());
    return Axis{out, p.auto_pad == AutoPad::kSameUpper ? t / 2 : t - t / 2};
  }
  const bool padded = p.auto_pad == AutoPad::kNotSet && !p.pads.empty();
  const int64_t begin = padded ? p.pads[static_cast<size_t>(i)] : 0;
  const int64_t end = padded ? p.pads[static_cast<size_t>(i + spatial)] : 0;
  const Dim out = full - Dim(begin + end);
  if (out.is_const() && out.value() < 0) {
    return BadInput("pads {} and {} on spatial axis {} exceed the {} elements produced", begin, end, i, full.ToString());
  }
  return Axis{out, begin};
}

// What both shape rule and Resolve need: the result's shape and the padding in front, as far as known.
struct Outcome {
  SymShape y;
  std::vector<Dim> pads;
};

Result<Outcome> Rule(const Params& p, const SymShape& x, const SymShape& w) {
  const int rank = x.rank();
  if (rank < 3 || w.rank() != rank) {
    return BadInput("input of shape {} and weights of shape {}; both need the same rank of 3 or more", x.ToString(),
                    w.ToString());
  }
  const int spatial = rank - 2;
  TENON_RETURN_IF_ERROR(CheckLengths(p, spatial));
  const int channel = p.nhwc ? rank - 1 : 1;
  const int first = p.nhwc ? 1 : 2;
  const Dim group = p.group;
  const Dim channels = p.transpose ? w[0] : w[1] * group;
  if (Disagree(x[channel], channels)) {
    return BadInput("input of shape {} has {} channels; weights of shape {} in {} groups need {}", x.ToString(),
                    x[channel].ToString(), w.ToString(), p.group, channels.ToString());
  }
  if (w[0].is_const() && w[0].value() % p.group != 0) {
    return BadInput("weights of shape {} in {} groups; the first extent must be a multiple of the groups", w.ToString(), p.group);
  }
  Outcome r;
  std::vector<Dim> y(static_cast<size_t>(rank));
  y[0] = x[0];
  y[static_cast<size_t>(channel)] = p.transpose ? w[1] * group : w[0];
  for (int i = 0; i < spatial; ++i) {
    const Dim& kernel = w[i + 2];
    if (!p.kernel_shape.empty() && Disagree(kernel, Dim(p.kernel_shape[static_cast<size_t>(i)]))) {
      return BadInput("kernel_shape says {} on axis {}; weights of shape {}", p.kernel_shape[static_cast<size_t>(i)], i,
                      w.ToString());
    }
    const Dim& in = x[first + i];
    if ((in.is_const() && in.value() > kMaxExtent) || (kernel.is_const() && kernel.value() > kMaxAttribute)) {
      return BadInput("input of shape {} and weights of shape {}; spatial extents are too large", x.ToString(), w.ToString());
    }
    if (kernel.Is(0)) return BadInput("weights of shape {}; a kernel extent of 0 is not allowed", w.ToString());
    TENON_ASSIGN_OR_RETURN(Axis a, (p.transpose ? TransposeAxis : ConvAxis)(p, i, spatial, in, kernel));
    y[static_cast<size_t>(first + i)] = a.out;
    r.pads.push_back(a.pad);
  }
  r.y = SymShape(std::move(y));
  if (auto shape = r.y.ToShape()) {
    auto checked = CheckedShape(shape->dims());
    if (!checked.ok()) return std::move(checked).TakeStatus();
  }
  return r;
}

Status Infer(std::string_view op, const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams(op, args.attrs));
  TENON_ASSIGN_OR_RETURN(const DType dtype, gemm::ResultType(args));
  ValueInfo& y = args.out[0];
  if (!y.present) return Status::Ok();
  y.dtype = dtype;
  const SymShape& x = args.in[0].shape;
  const SymShape& w = args.in[1].shape;
  if (!x.has_rank() || !w.has_rank()) {
    y.shape = SymShape();
    return Status::Ok();
  }
  TENON_ASSIGN_OR_RETURN(Outcome r, Rule(p, x, w));
  const Dim& oc = r.y[p.nhwc ? r.y.rank() - 1 : 1];
  if (args.Has(2) && args.in[2].shape.has_rank()) {
    const SymShape& bias = args.in[2].shape;
    if (bias.rank() != 1 || Disagree(bias[0], oc)) {
      return BadInput("bias of shape {}; [{}] is needed", bias.ToString(), oc.ToString());
    }
  }
  if (args.Has(3) && args.in[3].shape.has_rank()) {
    const SymShape& s = args.in[3].shape;
    bool same = s.rank() == r.y.rank();
    for (int i = 0; same && i < s.rank(); ++i) same = !Disagree(s[i], r.y[i]);
    if (!same) return BadInput("residual of shape {}; the result's shape {} is needed", s.ToString(), r.y.ToString());
  }
  y.shape = std::move(r.y);
  return Status::Ok();
}

}  // namespace

Result<Params> ParseParams(std::string_view op, const Attrs& attrs) {
  Params p;
  p.transpose = op == "ConvTranspose" || op == "FusedConvTranspose";
  p.group = attrs.Int("group", 1);
  if (p.group < 1 || p.group > kMaxAttribute) return BadInput("attribute group is {}; allowed: 1 to {}", p.group, kMaxAttribute);
  TENON_ASSIGN_OR_RETURN(p.kernel_shape, CheckedInts(attrs, "kernel_shape", 1));
  TENON_ASSIGN_OR_RETURN(p.strides, CheckedInts(attrs, "strides", 1));
  TENON_ASSIGN_OR_RETURN(p.dilations, CheckedInts(attrs, "dilations", 1));
  TENON_ASSIGN_OR_RETURN(p.pads, CheckedInts(attrs, "pads", 0));
  if (p.transpose) {
    TENON_ASSIGN_OR_RETURN(p.output_padding, CheckedInts(attrs, "output_padding", 0));
    TENON_ASSIGN_OR_RETURN(p.output_shape, CheckedInts(attrs, "output_shape", 1));
  }
  const std::string pad = attrs.String("auto_pad", "NOTSET");
  if (pad == "VALID") {
    p.auto_pad = AutoPad::kValid;
  } else if (pad == "SAME_UPPER") {
    p.auto_pad = AutoPad::kSameUpper;
  } else if (pad == "SAME_LOWER") {
    p.auto_pad = AutoPad::kSameLower;
  } else if (!pad.empty() && pad != "NOTSET") {
    return BadInput("attribute auto_pad is '{}'; allowed: NOTSET, VALID, SAME_UPPER, SAME_LOWER", pad);
  }
  if (op == "FusedConv" || op == "FusedConvTranspose") {
    const std::string layout = attrs.String("data_layout", "NCHW");
    if (layout != "NCHW" && layout != "NHWC") return BadInput("attribute data_layout is '{}'; allowed: NCHW, NHWC", layout);
    p.nhwc = layout == "NHWC";
    TENON_ASSIGN_OR_RETURN(p.activation, gemm::ParseActivation(attrs));
  }
  return p;
}

Result<Geometry> Resolve(const Params& p, const Shape& x, const Shape& w) {
  TENON_ASSIGN_OR_RETURN(const Outcome r, Rule(p, x, w));
  Geometry g;
  auto y = r.y.ToShape();
  CHECK(y.has_value());  // concrete operands give concrete results
  g.y = *y;
  g.spatial = x.rank() - 2;
  g.n = x[0];
  g.group = p.group;
  g.c = x.dim(p.nhwc ? -1 : 1);
  g.oc = g.y.dim(p.nhwc ? -1 : 1);
  const int first = p.nhwc ? 1 : 2;
  for (int i = 0; i < g.spatial; ++i) {
    g.in[i] = x[first + i];
    g.out[i] = g.y[first + i];
    g.kernel[i] = w[i + 2];
    g.stride[i] = p.stride(i);
    g.dilation[i] = p.dilation(i);
    g.pad[i] = r.pads[static_cast<size_t>(i)].value();
  }
  return g;
}

Status CheckAddends(const Geometry& g, std::span<const View> in) {
  if (in.size() > 2 && in[2].present() && !(in[2].shape.rank() == 1 && in[2].shape[0] == g.oc)) {
    return BadInput("bias of shape {}; [{}] is needed", in[2].shape.ToString(), g.oc);
  }
  if (in.size() > 3 && in[3].present() && !(in[3].shape == g.y)) {
    return BadInput("residual of shape {}; the result's shape {} is needed", in[3].shape.ToString(), g.y.ToString());
  }
  return Status::Ok();
}

Status InferConv(const ShapeArgs& args) {
  return Infer("Conv", args);
}
Status InferConvTranspose(const ShapeArgs& args) {
  return Infer("ConvTranspose", args);
}
Status InferFusedConv(const ShapeArgs& args) {
  return Infer("FusedConv", args);
}
Status InferFusedConvTranspose(const ShapeArgs& args) {
  return Infer("FusedConvTranspose", args);
}

std::span<const OpKernels> Operators() {
  static const auto conv = gemm::RowsOf(kTable, "Conv");
  static const auto transpose = gemm::RowsOf(kTable, "ConvTranspose");
  static const auto fused = gemm::RowsOf(kTable, "FusedConv");
  static const auto fused_transpose = gemm::RowsOf(kTable, "FusedConvTranspose");
  static const OpKernels ops[] = {
      {"Conv", InferConv, conv, 2, 3, 1, 1},
      {"ConvTranspose", InferConvTranspose, transpose, 2, 3, 1, 1},
      {"FusedConv", InferFusedConv, fused, 2, 4, 1, 1},
      {"FusedConvTranspose", InferFusedConvTranspose, fused_transpose, 2, 4, 1, 1},
  };
  return ops;
}

}  // namespace tenon::kernels::conv
