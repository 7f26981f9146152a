// Pooling over regions of interest, and MaxUnpool, which undoes MaxPool.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/pool/pool.h"

namespace tenon::kernels::pool {
namespace {

constexpr int64_t kMaxAttr = int64_t{1} << 31;
constexpr double kMaxSamples = 4096;  // of RoiAlign along one axis of one bin: more than any feature map asks for

Result<int64_t> Positive(const Attrs& attrs, std::string_view name, int64_t fallback) {
  const int64_t v = attrs.Int(name, fallback);
  if (v < 1 || v >= kMaxAttr) return BadInput("{} is {}; allowed: 1 to {}", name, v, kMaxAttr - 1);
  return v;
}

Result<std::vector<int64_t>> UnpooledExtents(const UnpoolParams& p, const Shape& x) {
  const size_t n = p.kernel.size();
  if (x.rank() != static_cast<int>(n) + 2) return BadInput("MaxUnpool: x has rank {}; allowed: {}", x.rank(), n + 2);
  std::vector<int64_t> out = {x[0], x[1]};
  for (size_t i = 0; i < n; ++i) {
    out.push_back((x[static_cast<int>(i) + 2] - 1) * p.stride[i] - p.pads[i] - p.pads[n + i] + p.kernel[i]);
    if (out.back() < 0) return BadInput("MaxUnpool: spatial axis {} comes out as {}", i, out.back());
  }
  return out;
}

Status CheckRois(const RunArgs& args, int64_t columns, int64_t* count) {
  const View& x = args.in[0];
  const View& rois = args.in[1];
  if (x.shape.rank() != 4) return BadInput("x has rank {}; allowed: 4", x.shape.rank());
  if (rois.dtype != x.dtype) return BadInput("rois are {}, x is {}", DTypeName(rois.dtype), DTypeName(x.dtype));
  if (rois.shape.rank() != 2 || rois.shape[1] != columns) {
    return BadInput("rois are {}; allowed: [count, {}]", rois.shape.ToString(), columns);
  }
  *count = rois.shape[0];
  return {};
}

SymShape RoiShape(const ShapeArgs& args, int64_t height, int64_t width) {
  const SymShape& x = args.in[0].shape;
  const SymShape& rois = args.in[1].shape;
  return SymShape({rois.has_rank() && rois.rank() == 2 ? rois[0] : Dim::Unknown(),
                   x.has_rank() && x.rank() == 4 ? x[1] : Dim::Unknown(), Dim(height), Dim(width)});
}

}  // namespace

Result<UnpoolParams> ParseUnpool(std::string_view /*op*/, const Attrs& attrs) {
  UnpoolParams p;
  p.kernel = attrs.Ints("kernel_shape");
  const size_t n = p.kernel.size();
  if (n == 0 || n > kMaxRank - 2) return BadInput("kernel_shape has {} values; allowed: 1 to {}", n, kMaxRank - 2);
  p.stride = attrs.Ints("strides", std::vector<int64_t>(n, 1));
  p.pads = attrs.Ints("pads", std::vector<int64_t>(2 * n, 0));
  if (p.stride.size() != n || p.pads.size() != 2 * n) return BadInput("strides or pads do not go with {} kernel extents", n);
  for (const auto* list : {&p.kernel, &p.stride, &p.pads}) {
    for (const int64_t v : *list) {
      if (v < (list == &p.pads ? 0 : 1) || v >= kMaxAttr) return BadInput("kernel_shape, strides or pads hold {}", v);
    }
  }
  return p;
}

Result<RoiPoolParams> ParseRoiPool(std::string_view /*op*/, const Attrs& attrs) {
  const auto shape = attrs.Ints("pooled_shape");
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1 || shape[0] >= kMaxAttr || shape[1] >= kMaxAttr) {
    return BadInput("pooled_shape must be two positive extents");
  }
  return RoiPoolParams{shape[0], shape[1], attrs.Float("spatial_scale", 1.0f)};
}

Result<RoiAlignParams> ParseRoiAlign(std::string_view /*op*/, const Attrs& attrs) {
  RoiAlignParams p;
  TENON_ASSIGN_OR_RETURN(p.height, Positive(attrs, "output_height", 1));
  TENON_ASSIGN_OR_RETURN(p.width, Positive(attrs, "output_width", 1));
  p.sampling_ratio = attrs.Int("sampling_ratio", 0);
  if (p.sampling_ratio < 0 || static_cast<double>(p.sampling_ratio) > kMaxSamples) {
    return BadInput("sampling_ratio is {}; allowed: 0 to {}", p.sampling_ratio, kMaxSamples);
  }
  p.spatial_scale = attrs.Float("spatial_scale", 1.0f);
  const std::string mode = attrs.String("mode", "avg");
  if (mode != "avg" && mode != "max") return BadInput("mode is '{}'; allowed: avg, max", mode);
  p.max = mode == "max";
  const std::string transform = attrs.String("coordinate_transformation_mode", "half_pixel");
  if (transform != "half_pixel" && transform != "output_half_pixel") {
    return BadInput("coordinate_transformation_mode is '{}'; allowed: half_pixel, output_half_pixel", transform);
  }
  p.half_pixel = transform == "half_pixel";
  return p;
}

Status InferUnpool(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const UnpoolParams p, ParseUnpool("", args.attrs));
  const ValueInfo& x = args.in[0];
  const size_t n = p.kernel.size();
  if (x.shape.has_rank() && x.shape.rank() != static_cast<int>(n) + 2) {
    return BadInput("MaxUnpool: x has rank {}; allowed: {}", x.shape.rank(), n + 2);
  }
  SymShape y = SymShape::OfRank(static_cast<int>(n) + 2);
  if (args.Has(2)) {
    if (auto shape = KnownElements(args.in[2])) {
      if (shape->size() != n + 2) return BadInput("MaxUnpool: output_shape has {} values; allowed: {}", shape->size(), n + 2);
      y = SymShape(*shape);
    }
  } else if (x.shape.has_rank()) {
    y = x.shape;
    for (size_t i = 0; i < n; ++i) {
      const int d = static_cast<int>(i) + 2;
      y[d] = (x.shape[d] - Dim(1)) * Dim(p.stride[i]) + Dim(p.kernel[i] - p.pads[i] - p.pads[n + i]);
    }
  }
  SetOutput(args, 0, x.dtype, y);
  return {};
}

Status InferRoiPool(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const RoiPoolParams p, ParseRoiPool("", args.attrs));
  SetOutput(args, 0, args.in[0].dtype, RoiShape(args, p.height, p.width));
  return {};
}

Status InferRoiAlign(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const RoiAlignParams p, ParseRoiAlign("", args.attrs));
  SetOutput(args, 0, args.in[0].dtype, RoiShape(args, p.height, p.width));
  return {};
}

Status RunUnpool(const UnpoolParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  const View& indices = args.in[1];
  if (indices.dtype != DType::kI64 || !(indices.shape == x.shape)) {
    return BadInput("MaxUnpool: indices are {} {}; allowed: int64 {}", DTypeName(indices.dtype), indices.shape.ToString(),
                    x.shape.ToString());
  }
  TENON_ASSIGN_OR_RETURN(const auto extents, UnpooledExtents(params, x.shape));
  TENON_ASSIGN_OR_RETURN(const Shape inner, CheckedShape(extents));
  Shape shape = inner;
  if (args.Has(2)) {
    const auto wanted = ToInt64s(args.in[2]);
    if (!wanted) return BadInput("MaxUnpool: output_shape is {}; allowed: int64", DTypeName(args.in[2].dtype));
    TENON_ASSIGN_OR_RETURN(shape, CheckedShape(*wanted));
    if (shape.rank() != inner.rank()) return BadInput("MaxUnpool: output_shape has rank {}", shape.rank());
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] < inner[i]) {
        return BadInput("MaxUnpool: output_shape is {}; allowed: at least {}", shape.ToString(), inner.ToString());
      }
    }
  }
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
  const size_t size = DTypeBytes(x.dtype, 1);
  std::memset(y.data, 0, y.bytes());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    int64_t at = indices.Data<int64_t>()[i];
    if (at < 0 || at >= inner.num_elements()) {
      return BadInput("MaxUnpool: index {}; allowed: 0 to {}", at, inner.num_elements() - 1);
    }
    int64_t to = 0, stride = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      to += at % inner[d] * stride;
      at /= inner[d];
      stride *= shape[d];
    }
    std::memcpy(static_cast<char*>(y.data) + static_cast<size_t>(to) * size,
                static_cast<const char*>(x.data) + static_cast<size_t>(i) * size, size);
  }
  return {};
}

Status RunRoiPool(const RoiPoolParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  int64_t count = 0;
  TENON_RETURN_IF_ERROR(CheckRois(args, 5, &count));
  const int64_t channels = x.shape[1], height = x.shape[2], width = x.shape[3];
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, {count, channels, params.height, params.width}));
  for (int64_t r = 0; r < count; ++r) {
    const double b = LoadAt(args.in[1], r * 5);
    if (!(b >= 0 && b < static_cast<double>(x.shape[0]))) {
      return BadInput("roi {} names batch {}; allowed: 0 to {}", r, b, x.shape[0] - 1);
    }
    double corner[4];
    for (int k = 0; k < 4; ++k) {
      corner[k] = std::round(LoadAt(args.in[1], r * 5 + 1 + k) * static_cast<double>(params.spatial_scale));
      if (!(std::fabs(corner[k]) < 1e9)) return BadInput("roi {} has the corner {}", r, corner[k]);
    }
    const double w0 = corner[0], h0 = corner[1];
    const double bin_h = std::max(corner[3] - h0 + 1, 1.0) / static_cast<double>(params.height);
    const double bin_w = std::max(corner[2] - w0 + 1, 1.0) / static_cast<double>(params.width);
    const auto clamp = [](double v, int64_t limit) { return std::clamp<int64_t>(static_cast<int64_t>(v), 0, limit); };
    for (int64_t o = 0; o < channels * params.height * params.width; ++o) {
      const int64_t c = o / (params.height * params.width);
      const auto ph = static_cast<double>(o / params.width % params.height), pw = static_cast<double>(o % params.width);
      const int64_t y0 = clamp(std::floor(ph * bin_h) + h0, height), y1 = clamp(std::ceil((ph + 1) * bin_h) + h0, height);
      const int64_t x0 = clamp(std::floor(pw * bin_w) + w0, width), x1 = clamp(std::ceil((pw + 1) * bin_w) + w0, width);
      double best = y1 > y0 && x1 > x0 ? -std::numeric_limits<double>::infinity() : 0;
      for (int64_t i = y0; i < y1; ++i) {
        for (int64_t j = x0; j < x1; ++j) {
          best = std::max(best, LoadAt(x, ((static_cast<int64_t>(b) * channels + c) * height + i) * width + j));
        }
      }
      StoreAt(y, r * channels * params.height * params.width + o, best);
    }
  }
  return {};
}

namespace {

// The four neighbours of one sample point and their weights; weights 0 outside.
struct Sample {
  int64_t at[4] = {};
  double weight[4] = {};
  Sample(double y, double x, int64_t height, int64_t width) {
    if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width))) return;
    y = std::max(y, 0.0);
    x = std::max(x, 0.0);
    const int64_t y0 = std::min(static_cast<int64_t>(y), height - 1), x0 = std::min(static_cast<int64_t>(x), width - 1);
    const int64_t y1 = std::min(y0 + 1, height - 1), x1 = std::min(x0 + 1, width - 1);
    const double ly = y0 == y1 ? 0 : y - static_cast<double>(y0), lx = x0 == x1 ? 0 : x - static_cast<double>(x0);
    at[0] = y0 * width + x0, at[1] = y0 * width + x1, at[2] = y1 * width + x0, at[3] = y1 * width + x1;
    weight[0] = (1 - ly) * (1 - lx), weight[1] = (1 - ly) * lx, weight[2] = ly * (1 - lx), weight[3] = ly * lx;
  }
};

}  // namespace

Status CheckRoiAlign(const RunArgs& args) {
  const View& x = args.in[0];
  int64_t count = 0;
  TENON_RETURN_IF_ERROR(CheckRois(args, 4, &count));
  const View& batches = args.in[2];
  if (batches.dtype != DType::kI64 || batches.shape.rank() != 1 || batches.shape[0] != count) {
    return BadInput("batch_indices are {} {}; allowed: int64 [{}]", DTypeName(batches.dtype), batches.shape.ToString(), count);
  }
  if (count > 0 && x.shape[2] * x.shape[3] == 0) return BadInput("RoiAlign: x is {}", x.shape.ToString());
  for (int64_t r = 0; r < count; ++r) {
    const int64_t b = batches.Data<int64_t>()[r];
    if (b < 0 || b >= x.shape[0]) return BadInput("roi {} names batch {}; allowed: 0 to {}", r, b, x.shape[0] - 1);
  }
  return {};
}

Result<RoiGrid> ResolveRoi(const RoiAlignParams& params, const RunArgs& args, int64_t roi) {
  double corner[4];
  for (int k = 0; k < 4; ++k) {
    corner[k] = LoadAt(args.in[1], roi * 4 + k) * static_cast<double>(params.spatial_scale) - (params.half_pixel ? 0.5 : 0);
  }
  double roi_w = corner[2] - corner[0], roi_h = corner[3] - corner[1];
  if (!params.half_pixel) roi_w = std::max(roi_w, 1.0), roi_h = std::max(roi_h, 1.0);
  RoiGrid g{args.in[2].Data<int64_t>()[roi], corner[0], corner[1]};
  g.bin_h = roi_h / static_cast<double>(params.height), g.bin_w = roi_w / static_cast<double>(params.width);
  const auto samples = [&](double bin) {
    return params.sampling_ratio > 0 ? static_cast<double>(params.sampling_ratio) : std::ceil(bin);
  };
  g.grid_h = samples(g.bin_h), g.grid_w = samples(g.bin_w);
  if (!(g.grid_h <= kMaxSamples && g.grid_w <= kMaxSamples && std::isfinite(corner[0] + corner[1]))) {
    return BadInput("roi {} takes {} x {} samples a bin; allowed: up to {} each way", roi, g.grid_h, g.grid_w, kMaxSamples);
  }
  return g;
}

Status RunRoiAlign(const RoiAlignParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  TENON_RETURN_IF_ERROR(CheckRoiAlign(args));
  const int64_t count = args.in[1].shape[0];
  const int64_t channels = x.shape[1], height = x.shape[2], width = x.shape[3], bins = params.height * params.width;
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, {count, channels, params.height, params.width}));
  for (int64_t r = 0; r < count; ++r) {
    TENON_ASSIGN_OR_RETURN(const RoiGrid g, ResolveRoi(params, args, r));
    const int64_t gh = std::max<int64_t>(0, static_cast<int64_t>(g.grid_h)),
                  gw = std::max<int64_t>(0, static_cast<int64_t>(g.grid_w));
    // Samples are shared by all channels: bins outside, channels inside.
    args.team.ParallelFor(
        bins, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, channels * gh * gw)), [&](int64_t begin, int64_t end, int) {
          for (int64_t o = begin; o < end; ++o) {
            const auto ph = static_cast<double>(o / params.width), pw = static_cast<double>(o % params.width);
            for (int64_t c = 0; c < channels; ++c) {
              double acc = 0;
              for (int64_t s = 0; s < gh * gw; ++s) {
                const double sy = g.y + ph * g.bin_h + (static_cast<double>(s / gw) + 0.5) * g.bin_h / g.grid_h;
                const double sx = g.x + pw * g.bin_w + (static_cast<double>(s % gw) + 0.5) * g.bin_w / g.grid_w;
                const Sample sample(sy, sx, height, width);
                double sum = 0, best = -std::numeric_limits<double>::infinity();
                for (int k = 0; k < 4; ++k) {
                  const double v = sample.weight[k] * LoadAt(x, (g.batch * channels + c) * height * width + sample.at[k]);
                  sum += v;
                  best = std::max(best, v);
                }
                if (params.max) {
                  acc = s == 0 ? best : std::max(acc, best);
                } else {
                  acc += sum;
                }
              }
              if (!params.max) acc /= static_cast<double>(std::max<int64_t>(gh * gw, 1));
              StoreAt(y, (r * channels + c) * bins + o, acc);
            }
          }
        });
  }
  return {};
}

Refusal CanRoiAlignMaxF32(const Problem& p) {
  return p.attrs.String("mode", "avg") == "max" ? RequireF32First(p) : kRefuseAttribute;
}

// Each sample's neighbours and weights once for all channels; the output holds the maxima so far.
Status RunRoiAlignMaxF32(const RoiAlignParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  TENON_RETURN_IF_ERROR(CheckRoiAlign(args));
  const int64_t count = args.in[1].shape[0], bins = params.height * params.width;
  const int64_t channels = x.shape[1], height = x.shape[2], width = x.shape[3], plane = height * width;
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, {count, channels, params.height, params.width}));
  for (int64_t r = 0; r < count; ++r) {
    TENON_ASSIGN_OR_RETURN(const RoiGrid g, ResolveRoi(params, args, r));
    const int64_t gh = g.grid_h > 0 ? static_cast<int64_t>(g.grid_h) : 0, gw = g.grid_w > 0 ? static_cast<int64_t>(g.grid_w) : 0;
    const float* from = x.Data<float>() + g.batch * channels * plane;
    float* to = out.Data<float>() + r * channels * bins;
    const int64_t work = channels * std::max<int64_t>(gh * gw, 1) * 8;
    args.team.ParallelFor(bins, std::max<int64_t>(1, 16384 / std::max<int64_t>(work, 1)), [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o) {
        const auto ph = static_cast<double>(o / params.width), pw = static_cast<double>(o % params.width);
        if (gh * gw == 0) {
          for (int64_t c = 0; c < channels; ++c) to[c * bins + o] = 0;
        }
        for (int64_t s = 0; s < gh * gw; ++s) {
          const Sample sample(g.y + ph * g.bin_h + (static_cast<double>(s / gw) + 0.5) * g.bin_h / g.grid_h,
                              g.x + pw * g.bin_w + (static_cast<double>(s % gw) + 0.5) * g.bin_w / g.grid_w, height, width);
          float weight[4];
          for (int k = 0; k < 4; ++k) weight[k] = static_cast<float>(sample.weight[k]);
          for (int64_t c = 0; c < channels; ++c) {
            const float* p = from + c * plane;
            float best = -std::numeric_limits<float>::infinity();
            for (int k = 0; k < 4; ++k) best = std::max(best, weight[k] * p[sample.at[k]]);
            float& y = to[c * bins + o];
            y = s == 0 ? best : std::max(y, best);
          }
        }
      }
    });
  }
  return {};
}

}  // namespace tenon::kernels::pool
