// GridSample (opset 22), AffineGrid (opset 20) and CenterCropPad (opset 18), plainly.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/resize/resize.h"

namespace tenon::kernels::resize {

Result<GridParams> ParseGrid(std::string_view /*op*/, const Attrs& attrs) {
  GridParams p;
  const std::string mode = attrs.String("mode", "linear"), padding = attrs.String("padding_mode", "zeros");
  if (mode == "linear" || mode == "bilinear") {
    p.mode = Mode::kLinear;
  } else if (mode == "cubic" || mode == "bicubic") {
    p.mode = Mode::kCubic;
  } else if (mode == "nearest") {
    p.mode = Mode::kNearest;
  } else {
    return BadInput("mode is '{}'; allowed: nearest, linear, cubic", mode);
  }
  if (padding == "border") {
    p.padding = GridParams::Padding::kBorder;
  } else if (padding == "reflection") {
    p.padding = GridParams::Padding::kReflection;
  } else if (padding != "zeros") {
    return BadInput("padding_mode is '{}'; allowed: zeros, border, reflection", padding);
  }
  p.align_corners = attrs.Int("align_corners", 0) != 0;
  return p;
}

Status InferGrid(const ShapeArgs& args) {
  const SymShape &x = args.in[0].shape, &grid = args.in[1].shape;
  SymShape y;
  if (grid.has_rank()) {
    if (grid.rank() < 3) return BadInput("grid has rank {}; allowed: the rank of X, 3 or more", grid.rank());
    y = SymShape::OfRank(grid.rank());
    for (int i = 2; i < grid.rank(); ++i) y[i] = grid[i - 1];
    if (x.has_rank()) {
      if (x.rank() != grid.rank()) return BadInput("grid has rank {}, X {}", grid.rank(), x.rank());
      y[0] = x[0];
      y[1] = x[1];
    }
  }
  SetOutput(args, 0, args.in[0].dtype, y);
  return {};
}

namespace {

double Reflect(double v, double lo, double hi) {
  const double range = hi - lo;
  if (range <= 0) return 0;
  if (v >= lo && v <= hi) return v;
  const double d = v < lo ? lo - v : v - hi;
  const double n = std::floor(d / range), r = d - n * range;
  const bool even = std::fmod(n, 2) == 0;
  return (v < lo) == even ? lo + r : hi - r;
}

// Index of a neighbour after padding; -1: a zero.
int64_t Padded(GridParams::Padding padding, const GridAxis& a, int64_t i) {
  if (i >= 0 && i < a.length) return i;
  switch (padding) {
    case GridParams::Padding::kZeros: return -1;
    case GridParams::Padding::kBorder: return std::clamp<int64_t>(i, 0, a.length - 1);
    default: return std::clamp<int64_t>(static_cast<int64_t>(Reflect(static_cast<double>(i), a.lo, a.hi)), 0, a.length - 1);
  }
}

}  // namespace

GridAxis MakeGridAxis(const GridParams& params, int64_t length) {
  const auto n = static_cast<double>(length);
  return {length, params.align_corners ? 0 : -0.5, params.align_corners ? n - 1 : n - 0.5};
}

GridTaps TapsOf(const GridParams& params, const GridAxis& a, double n) {
  const auto length = static_cast<double>(a.length);
  double x = params.align_corners ? (n + 1) / 2 * (length - 1) : ((n + 1) * length - 1) / 2;
  if (std::isnan(x)) x = -1;  // NaN looks at the border
  x = std::clamp(x, -1e9, 1e9);
  if (params.mode == Mode::kNearest) x = std::nearbyint(x);
  if (x < a.lo || x > a.hi) {
    if (params.padding == GridParams::Padding::kBorder) x = std::clamp(x, 0.0, length - 1);
    if (params.padding == GridParams::Padding::kReflection) x = Reflect(x, a.lo, a.hi);
  }
  GridTaps t;
  const auto low = static_cast<int64_t>(params.mode == Mode::kNearest ? x : std::floor(x));
  const double r = x - static_cast<double>(low);
  constexpr double kA = -0.75;
  switch (params.mode) {
    case Mode::kNearest: t = {1, {low}, {1}}; break;
    case Mode::kLinear: t = {2, {low, low + 1}, {1 - r, r}}; break;
    case Mode::kCubic: {
      const auto near = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
      const auto far = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
      t = {4, {low - 1, low, low + 1, low + 2}, {far(r + 1), near(r), near(1 - r), far(2 - r)}};
      break;
    }
  }
  for (int k = 0; k < t.count; ++k) t.index[k] = Padded(params.padding, a, t.index[k]);
  return t;
}

namespace {

// Weighted sum over the neighbours in all axes of one plane.
double SampleAt(const View& x, int64_t base, const GridAxis* axes, const GridTaps* taps, int rank) {
  int at[kMaxRank] = {};
  double sum = 0;
  for (;;) {
    int64_t offset = 0;
    double w = 1;
    for (int d = 0; d < rank && w != 0; ++d) {
      const int64_t i = taps[d].index[at[d]];
      w = i < 0 ? 0 : w * taps[d].weight[at[d]];
      offset = offset * axes[d].length + i;
    }
    if (w != 0) sum += w * LoadDouble(x.dtype, x.data, base + offset);
    int d = rank - 1;
    for (; d >= 0; --d) {
      if (++at[d] < taps[d].count) break;
      at[d] = 0;
    }
    if (d < 0) return sum;
  }
}

}  // namespace

Status RunGridReference(const GridParams& params, const RunArgs& args) {
  const View &x = args.in[0], &grid = args.in[1];
  const int rank = x.shape.rank() - 2;
  if (rank < 1 || grid.shape.rank() != rank + 2 || grid.shape[0] != x.shape[0] || grid.shape.dim(-1) != rank) {
    return BadInput("GridSample: X is {}, grid is {}; allowed: [N, C, D1..Dk] and [N, E1..Ek, k]", x.shape.ToString(),
                    grid.shape.ToString());
  }
  if (!IsPlainFloat(grid.dtype)) return BadInput("grid is {}; allowed: a float type", DTypeName(grid.dtype));
  Shape shape{x.shape[0], x.shape[1]};
  for (int i = 1; i <= rank; ++i) shape.push_back(grid.shape[i]);
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
  if (y.num_elements() == 0) return {};
  const int64_t plane = x.shape.Product(2, rank + 2), points = shape.Product(2, rank + 2), channels = x.shape[1];
  if (plane == 0) return BadInput("GridSample: X is {}", x.shape.ToString());
  GridAxis axes[kMaxRank];
  for (int d = 0; d < rank; ++d) axes[d] = MakeGridAxis(params, x.shape[d + 2]);
  args.team.ParallelFor(x.shape[0] * points, 1 + 2048 / channels, [&](int64_t begin, int64_t end, int) {
    GridTaps taps[kMaxRank];
    for (int64_t p = begin; p < end; ++p) {
      // The grid names axes innermost first.
      for (int d = 0; d < rank; ++d) taps[d] = TapsOf(params, axes[d], LoadAt(grid, p * rank + (rank - 1 - d)));
      const int64_t b = p / points;
      for (int64_t c = 0; c < channels; ++c) {
        StoreDouble(y.dtype, y.data, (b * channels + c) * points + p % points,
                    SampleAt(x, (b * channels + c) * plane, axes, taps, rank));
      }
    }
  });
  return {};
}

Result<AffineParams> ParseAffine(std::string_view /*op*/, const Attrs& attrs) {
  return AffineParams{attrs.Int("align_corners", 0) != 0};
}

Status InferAffine(const ShapeArgs& args) {
  SymShape y;
  const SymShape& count = args.in[1].shape;
  if (auto size = KnownElements(args.in[1])) {
    if (size->size() != 4 && size->size() != 5) return BadInput("AffineGrid: size has {} values; allowed: 4, 5", size->size());
    std::vector<Dim> dims = {(*size)[0]};
    dims.insert(dims.end(), size->begin() + 2, size->end());
    dims.emplace_back(static_cast<int64_t>(size->size()) - 2);
    y = SymShape(std::move(dims));
  } else if (count.has_rank() && count.rank() == 1 && (count[0].Is(4) || count[0].Is(5))) {
    y = SymShape::OfRank(static_cast<int>(count[0].value()));
  }
  SetOutput(args, 0, args.in[0].dtype, y);
  return {};
}

Status RunAffineReference(const AffineParams& params, const RunArgs& args) {
  const View& theta = args.in[0];
  const auto size = ToInt64s(args.in[1]);
  if (!size || (size->size() != 4 && size->size() != 5)) return BadInput("AffineGrid: size must be 4 or 5 integers");
  const int64_t k = static_cast<int64_t>(size->size()) - 2;
  std::vector<int64_t> dims = {(*size)[0]};
  dims.insert(dims.end(), size->begin() + 2, size->end());
  dims.push_back(k);
  TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(dims));
  if (!(theta.shape == Shape{shape[0], k, k + 1})) {
    return BadInput("AffineGrid: theta is {}; allowed: [{}, {}, {}]", theta.shape.ToString(), shape[0], k, k + 1);
  }
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
  const int64_t points = shape.Product(1, shape.rank() - 1);
  for (int64_t p = 0; p < shape[0] * points; ++p) {
    double at[4] = {0, 0, 0, 1};  // innermost axis first, then 1
    at[k] = 1;
    int64_t rest = p % points;
    for (int64_t d = 0; d < k; ++d) {
      const int64_t n = shape[static_cast<int>(k - d)];
      const auto i = static_cast<double>(rest % n), length = static_cast<double>(n);
      rest /= n;
      at[d] = params.align_corners ? (n > 1 ? -1 + 2 * i / (length - 1) : -1) : (2 * i + 1) / length - 1;
    }
    for (int64_t r = 0; r < k; ++r) {
      double sum = 0;
      for (int64_t c = 0; c <= k; ++c) sum += LoadAt(theta, (p / points * k + r) * (k + 1) + c) * at[c];
      StoreAt(y, p * k + r, sum);
    }
  }
  return {};
}

Result<CropParams> ParseCrop(std::string_view /*op*/, const Attrs& attrs) {
  return CropParams{attrs.Ints("axes"), !attrs.Has("axes")};
}

namespace {

Result<std::vector<int>> CropAxes(const CropParams& params, int rank) {
  std::vector<int> axes;
  for (int i = 0; params.all && i < rank; ++i) axes.push_back(i);
  for (const int64_t a : params.axes) {
    TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(a, rank));
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) return BadInput("axis {} is named twice", a);
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

Status InferCrop(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const CropParams params, ParseCrop("", args.attrs));
  const ValueInfo& x = args.in[0];
  SymShape y = x.shape;
  if (y.has_rank()) {
    TENON_ASSIGN_OR_RETURN(const auto axes, CropAxes(params, y.rank()));
    const auto wanted = KnownElements(args.in[1]);
    if (wanted && wanted->size() != axes.size()) return BadInput("shape has {} values; allowed: {}", wanted->size(), axes.size());
    for (size_t i = 0; i < axes.size(); ++i) y[axes[i]] = wanted ? (*wanted)[i] : Dim::Unknown();
  }
  SetOutput(args, 0, x.dtype, y);
  return {};
}

Status RunCropReference(const CropParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  const int rank = x.shape.rank();
  TENON_ASSIGN_OR_RETURN(const auto axes, CropAxes(params, rank));
  const auto wanted = ToInt64s(args.in[1]);
  if (!wanted || wanted->size() != axes.size()) return BadInput("CenterCropPad: shape must be {} integers", axes.size());
  std::vector<int64_t> dims(x.shape.begin(), x.shape.end());
  std::vector<int64_t> skip(dims.size(), 0), lead(dims.size(), 0), copy = dims;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<size_t>(axes[i]);
    const int64_t w = (*wanted)[i];
    if (w < 0) return BadInput("CenterCropPad: shape[{}] is {}; allowed: 0 or more", i, w);
    skip[d] = std::max<int64_t>(0, (dims[d] - w) / 2);
    lead[d] = std::max<int64_t>(0, (w - dims[d]) / 2);
    copy[d] = std::min(dims[d], w);
    dims[d] = w;
  }
  TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(dims));
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
  const size_t size = DTypeBytes(x.dtype, 1);
  std::memset(y.data, 0, y.bytes());
  const int64_t total = Shape(copy).num_elements();
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, from = 0, to = 0, x_stride = 1, y_stride = 1;
    for (int d = rank - 1; d >= 0; --d) {
      const auto k = static_cast<size_t>(d);
      const int64_t at = rest % copy[k];
      rest /= copy[k];
      from += (at + skip[k]) * x_stride;
      to += (at + lead[k]) * y_stride;
      x_stride *= x.shape[d];
      y_stride *= shape[d];
    }
    std::memcpy(static_cast<char*>(y.data) + static_cast<size_t>(to) * size,
                static_cast<const char*>(x.data) + static_cast<size_t>(from) * size, size);
  }
  return {};
}

}  // namespace tenon::kernels::resize
