// Attributes and shape rule of Resize.
#include <algorithm>
#include <cmath>

#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/resize/resize.h"

namespace tenon::kernels::resize {
namespace {

template <typename E>
struct Word {
  std::string_view name;
  E value;
};

template <typename E, size_t N>
Result<E> Choose(const Attrs& attrs, std::string_view attr, const Word<E> (&words)[N]) {
  const std::string s = attrs.String(attr, std::string(words[0].name));
  std::string allowed;
  for (const auto& w : words) {
    if (w.name == s) return w.value;
    allowed += (allowed.empty() ? "" : ", ") + std::string(w.name);
  }
  return BadInput("{} is '{}'; allowed: {}", attr, s, allowed);
}

constexpr Word<Mode> kModes[] = {{"nearest", Mode::kNearest}, {"linear", Mode::kLinear}, {"cubic", Mode::kCubic}};
constexpr Word<Nearest> kNearest[] = {{"round_prefer_floor", Nearest::kRoundPreferFloor},
                                      {"round_prefer_ceil", Nearest::kRoundPreferCeil},
                                      {"floor", Nearest::kFloor},
                                      {"ceil", Nearest::kCeil}};
constexpr Word<Transform> kTransforms[] = {{"half_pixel", Transform::kHalfPixel},
                                           {"half_pixel_symmetric", Transform::kHalfPixelSymmetric},
                                           {"pytorch_half_pixel", Transform::kPytorchHalfPixel},
                                           {"align_corners", Transform::kAlignCorners},
                                           {"asymmetric", Transform::kAsymmetric},
                                           {"tf_crop_and_resize", Transform::kTfCropAndResize}};
constexpr Word<Aspect> kAspects[] = {
    {"stretch", Aspect::kStretch}, {"not_larger", Aspect::kNotLarger}, {"not_smaller", Aspect::kNotSmaller}};

bool Given(std::span<const ValueInfo> in, size_t i) {
  if (i >= in.size() || !in[i].present) return false;
  const SymShape& s = in[i].shape;
  return !(s.has_rank() && s.rank() == 1 && s[0].Is(0));  // an empty tensor is as good as none
}

// dim * scale rounded down, for scales that are fractions of small powers of two or reciprocals of integers.
Dim Scaled(const Dim& dim, float scale) {
  if (dim.is_const()) return {static_cast<int64_t>(std::floor(static_cast<float>(dim.value()) * scale))};
  for (int64_t q = 1; q <= 16; q *= 2) {
    const float p = scale * static_cast<float>(q);
    if (p == std::floor(p) && p < 4096) return Dim::FloorDiv(dim * Dim(static_cast<int64_t>(p)), Dim(q));
  }
  return Dim::Unknown();
}

}  // namespace

Result<ResizeParams> ParseResize(std::string_view /*op*/, const Attrs& attrs) {
  ResizeParams p;
  TENON_ASSIGN_OR_RETURN(p.mode, Choose(attrs, "mode", kModes));
  TENON_ASSIGN_OR_RETURN(p.nearest, Choose(attrs, "nearest_mode", kNearest));
  TENON_ASSIGN_OR_RETURN(p.transform, Choose(attrs, "coordinate_transformation_mode", kTransforms));
  TENON_ASSIGN_OR_RETURN(p.aspect, Choose(attrs, "keep_aspect_ratio_policy", kAspects));
  p.antialias = attrs.Int("antialias", 0) != 0;
  if (p.antialias && p.mode == Mode::kNearest) return BadInput("antialias does not go with mode nearest");
  p.exclude_outside = attrs.Int("exclude_outside", 0) != 0;
  p.cubic_a = static_cast<double>(attrs.Float("cubic_coeff_a", -0.75f));
  p.extrapolation = attrs.Float("extrapolation_value", 0.0f);
  p.axes = attrs.Ints("axes");
  const std::string layout = attrs.String("data_layout", "NCHW");
  if (layout != "NCHW" && layout != "NHWC") return BadInput("data_layout is '{}'; allowed: NCHW, NHWC", layout);
  p.nhwc = layout == "NHWC";
  return p;
}

namespace {

// Places in x of the axes that roi, scales and sizes speak of.
Result<std::vector<int>> NamedAxes(const ResizeParams& params, int rank) {
  if (params.nhwc && rank != 4) return BadInput("data_layout NHWC with rank {}; allowed: 4", rank);
  std::vector<int64_t> axes = params.axes;
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  std::vector<int> places;
  constexpr int kNhwc[] = {0, 3, 1, 2};
  for (const int64_t a : axes) {
    TENON_ASSIGN_OR_RETURN(int axis, NormalizeAxis(a, rank));
    if (params.nhwc) axis = kNhwc[axis];
    if (std::find(places.begin(), places.end(), axis) != places.end()) return BadInput("axis {} is named twice", a);
    places.push_back(axis);
  }
  return places;
}

bool HasData(std::span<const View> in, size_t i) {
  return i < in.size() && in[i].present() && in[i].num_elements() > 0;
}

// roi, scales and sizes as numbers, one entry for each axis of x.
struct Wishes {
  std::vector<double> start, end;
  std::vector<float> scale;    ///< empty: sizes are given
  std::vector<int64_t> size;   ///< empty: scales are given
  std::vector<bool> named;
};

Status CheckList(const char* name, const View& v, size_t count) {
  if (v.shape.rank() != 1 || v.shape[0] != static_cast<int64_t>(count)) {
    return BadInput("{} is {}; allowed: [{}]", name, v.shape.ToString(), count);
  }
  return v.data == nullptr ? Internal("{} is needed and not known", name) : Status();
}

Result<Wishes> ReadWishes(const ResizeParams& params, std::span<const View> in) {
  const Shape& x = in[0].shape;
  TENON_ASSIGN_OR_RETURN(const auto places, NamedAxes(params, x.rank()));
  const auto rank = static_cast<size_t>(x.rank());
  const size_t n = places.size();
  Wishes w{std::vector<double>(rank, 0.0), std::vector<double>(rank, 1.0), {}, {}, std::vector<bool>(rank, false)};
  for (const int p : places) w.named[static_cast<size_t>(p)] = true;
  if (params.transform == Transform::kTfCropAndResize) {
    if (!HasData(in, 1)) return BadInput("tf_crop_and_resize needs roi");
    TENON_RETURN_IF_ERROR(CheckList("roi", in[1], 2 * n));
    if (!IsPlainFloat(in[1].dtype)) return BadInput("roi is {}; allowed: a float type", DTypeName(in[1].dtype));
    for (size_t i = 0; i < n; ++i) {
      w.start[static_cast<size_t>(places[i])] = LoadAt(in[1], static_cast<int64_t>(i));
      w.end[static_cast<size_t>(places[i])] = LoadAt(in[1], static_cast<int64_t>(n + i));
    }
  }
  if (HasData(in, 2) == HasData(in, 3)) return BadInput("Resize takes either scales or sizes");
  if (HasData(in, 2)) {
    TENON_RETURN_IF_ERROR(CheckList("scales", in[2], n));
    if (in[2].dtype != DType::kF32) return BadInput("scales are {}; allowed: float32", DTypeName(in[2].dtype));
    w.scale.assign(rank, 1.0f);
    for (size_t i = 0; i < n; ++i) {
      const float s = in[2].Data<float>()[i];
      if (!(s > 0 && s < 1e9f)) return BadInput("scales[{}] is {}; allowed: more than 0", i, s);
      w.scale[static_cast<size_t>(places[i])] = s;
    }
    return w;
  }
  TENON_RETURN_IF_ERROR(CheckList("sizes", in[3], n));
  if (in[3].dtype != DType::kI64) return BadInput("sizes are {}; allowed: int64", DTypeName(in[3].dtype));
  w.size.assign(x.begin(), x.end());
  for (size_t i = 0; i < n; ++i) {
    const int64_t s = in[3].Data<int64_t>()[i];
    if (s < 0 || s > (int64_t{1} << 40)) return BadInput("sizes[{}] is {}; allowed: 0 or more", i, s);
    w.size[static_cast<size_t>(places[i])] = s;
  }
  return w;
}

// The one scale of all named axes that keeps the aspect ratio.
double CommonScale(const ResizeParams& params, const Shape& x, const Wishes& w) {
  double scale = params.aspect == Aspect::kNotLarger ? INFINITY : 0;
  for (int i = 0; i < x.rank(); ++i) {
    if (!w.named[static_cast<size_t>(i)]) continue;
    const double s = static_cast<double>(w.size[static_cast<size_t>(i)]) / static_cast<double>(std::max<int64_t>(1, x[i]));
    scale = params.aspect == Aspect::kNotLarger ? std::min(scale, s) : std::max(scale, s);
  }
  return scale;
}

Result<Shape> ShapeOf(const ResizeParams& params, const Shape& x, const Wishes& w) {
  std::vector<int64_t> out(x.begin(), x.end());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!w.named[i]) continue;
    if (!w.scale.empty()) {
      float extent = static_cast<float>(out[i]);
      if (params.transform == Transform::kTfCropAndResize) extent *= static_cast<float>(w.end[i] - w.start[i]);
      const float scaled = std::floor(extent * w.scale[i]);
      if (!(scaled >= 0 && scaled < 1e15f)) return BadInput("axis {} of {} comes out as {}", i, out[i], scaled);
      out[i] = static_cast<int64_t>(scaled);
    } else if (params.aspect == Aspect::kStretch) {
      out[i] = w.size[i];
    } else {
      out[i] = static_cast<int64_t>(CommonScale(params, x, w) * static_cast<double>(x[static_cast<int>(i)]) + 0.5);
    }
  }
  return CheckedShape(out);
}

// Source coordinate of output position o.
struct Map {
  Transform transform;
  double scale, width;  ///< width: the wanted length, fractional with scales
  double in, out, start, end;

  double At(double o) const {
    switch (transform) {
      case Transform::kAlignCorners: return width == 1 ? 0 : o * (in - 1) / (width - 1);
      case Transform::kAsymmetric: return o / scale;
      case Transform::kPytorchHalfPixel: return width == 1 ? -0.5 : (o + 0.5) / scale - 0.5;
      case Transform::kHalfPixelSymmetric: return in / 2 * (1 - out / width) + (o + 0.5) / scale - 0.5;
      case Transform::kTfCropAndResize:
        return out > 1 ? start * (in - 1) + o * (end - start) * (in - 1) / (out - 1) : 0.5 * (start + end) * (in - 1);
      default: return (o + 0.5) / scale - 0.5;
    }
  }
};

double Cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// First neighbour and weights of `taps` neighbours for a source coordinate.
struct Footprint {
  int64_t before;  ///< neighbours left of and including floor
  int64_t taps;
};

Footprint FootprintOf(const ResizeParams& params, double scale) {
  if (params.mode == Mode::kNearest) return {1, 1};
  const double support = params.mode == Mode::kCubic ? 2 : 1;
  const double s = params.antialias ? std::min(scale, 1.0) : 1.0;
  const auto start = static_cast<int64_t>(std::floor(-support / s) + 1);
  return {1 - start, 2 - 2 * start};
}

int64_t NearestIndex(Nearest mode, double x) {
  const double low = std::floor(x), ratio = x - low;
  bool up = false;
  switch (mode) {
    case Nearest::kRoundPreferFloor: up = ratio > 0.5; break;
    case Nearest::kRoundPreferCeil: up = ratio >= 0.5; break;
    case Nearest::kFloor: break;
    case Nearest::kCeil: up = ratio > 0; break;
  }
  return static_cast<int64_t>(low) + (up ? 1 : 0);
}

void FillTaps(const ResizeParams& params, const Footprint& f, double scale, double x, int64_t o, AxisTable* t) {
  // The neighbour on the left of an integer coordinate counts as its floor, so that ratio is in (0, 1].
  double low = std::floor(x);
  if (low == x) low -= 1;
  const double ratio = x - low;
  const double s = params.antialias ? std::min(scale, 1.0) : 1.0;
  double sum = 0;
  for (int64_t k = 0; k < f.taps; ++k) {
    const int64_t offset = k - f.before + 1;
    const double distance = (static_cast<double>(offset) - ratio) * s;
    double w = params.mode == Mode::kCubic ? Cubic(distance, params.cubic_a) : std::max(0.0, 1 - std::fabs(distance));
    const auto at = static_cast<int64_t>(low) + offset;
    if (params.exclude_outside && (at < 0 || at >= t->in)) w = 0;
    const auto slot = static_cast<size_t>(o * t->taps + k);
    t->index[slot] = static_cast<int32_t>(std::clamp<int64_t>(at, 0, t->in - 1));
    t->weight[slot] = w;
    sum += w;
  }
  if (sum == 0 || !(params.antialias || params.exclude_outside)) return;
  for (int64_t k = 0; k < f.taps; ++k) t->weight[static_cast<size_t>(o * t->taps + k)] /= sum;
}

constexpr int64_t kMaxTableBytes = int64_t{1} << 30;

Result<AxisTable> MakeTable(const ResizeParams& params, const Map& map, int64_t in, int64_t out) {
  AxisTable t;
  t.in = in, t.out = out;
  const bool whole = map.start == 0 && map.end == 1;
  if (in == out && std::fabs(map.scale - 1) <= 1e-9 && whole) return t;
  if (out == 0) return t;
  if (in == 0) return BadInput("an axis of extent 0 cannot be resized to {}", out);
  if (in > INT32_MAX) return Unsupported("an axis of extent {} is not resized", in);
  t.identity = false;
  const Footprint f = FootprintOf(params, map.scale);
  t.taps = f.taps;
  if (f.taps > kMaxTableBytes / 16 / out) return ResourceLimit("Resize: {} positions of {} taps", out, f.taps);
  t.index.resize(static_cast<size_t>(out * t.taps));
  t.weight.resize(t.index.size(), 1.0);
  if (params.transform == Transform::kTfCropAndResize) t.outside.resize(static_cast<size_t>(out));
  for (int64_t o = 0; o < out; ++o) {
    double x = map.At(static_cast<double>(o));
    if (!std::isfinite(x)) return BadInput("Resize: position {} maps to {}", o, x);
    if (!t.outside.empty()) t.outside[static_cast<size_t>(o)] = x < 0 || x > static_cast<double>(in - 1);
    x = std::clamp(x, -1e15, 1e15);
    if (params.mode == Mode::kNearest) {
      t.index[static_cast<size_t>(o)] = static_cast<int32_t>(std::clamp<int64_t>(NearestIndex(params.nearest, x), 0, in - 1));
    } else {
      FillTaps(params, f, map.scale, x, o, &t);
    }
  }
  t.weight_f32.assign(t.weight.begin(), t.weight.end());
  t.index_by_tap.resize(t.index.size());
  t.weight_by_tap.resize(t.index.size());
  for (int64_t i = 0; i < out * t.taps; ++i) {
    const auto to = static_cast<size_t>(i % t.taps * out + i / t.taps);
    t.index_by_tap[to] = t.index[static_cast<size_t>(i)];
    t.weight_by_tap[to] = t.weight_f32[static_cast<size_t>(i)];
  }
  return t;
}

}  // namespace

Result<Shape> ResizedShape(const ResizeParams& params, std::span<const View> in) {
  TENON_ASSIGN_OR_RETURN(const Wishes w, ReadWishes(params, in));
  return ShapeOf(params, in[0].shape, w);
}

Result<std::unique_ptr<Plan>> MakePlan(const ResizeParams& params, std::span<const View> in, const Shape& out) {
  const Shape& x = in[0].shape;
  TENON_ASSIGN_OR_RETURN(const Wishes w, ReadWishes(params, in));
  auto plan = std::make_unique<Plan>();
  for (int i = 0; i < x.rank(); ++i) {
    const auto k = static_cast<size_t>(i);
    const auto length = static_cast<double>(x[i]);
    double scale = 1;
    if (!w.scale.empty()) {
      scale = static_cast<double>(w.scale[k]);
    } else if (params.aspect != Aspect::kStretch) {
      scale = w.named[k] ? CommonScale(params, x, w) : 1.0;
    } else if (x[i] > 0) {
      scale = static_cast<double>(out[i]) / length;
    }
    const Map map{params.transform, scale, scale * length, length, static_cast<double>(out[i]), w.start[k], w.end[k]};
    TENON_ASSIGN_OR_RETURN(AxisTable table, MakeTable(params, map, x[i], out[i]));
    for (const bool o : table.outside) plan->any_outside = plan->any_outside || o;
    plan->axes.push_back(std::move(table));
  }
  return plan;
}

Status InferResize(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const ResizeParams params, ParseResize("Resize", args.attrs));
  const ValueInfo& x = args.in[0];
  if (!x.shape.has_rank()) {
    SetOutput(args, 0, x.dtype, SymShape());
    return {};
  }
  const int rank = x.shape.rank();
  TENON_ASSIGN_OR_RETURN(const auto places, NamedAxes(params, rank));
  SymShape y = x.shape;
  for (const int p : places) y[p] = Dim::Unknown();
  const bool by_scale = Given(args.in, 2), by_size = Given(args.in, 3);
  if (!by_scale && !by_size) return BadInput("Resize takes either scales or sizes");
  // Everything known: the run's own rule.
  const auto concrete = x.shape.ToShape();
  std::vector<View> views(4);
  bool all = concrete.has_value();
  for (size_t i = 1; i < 4 && i < args.in.size(); ++i) {
    if (!args.in[i].present) continue;
    if (args.in[i].data != nullptr) {
      views[i] = *args.in[i].data;
    } else if (!(i == 1 && params.transform != Transform::kTfCropAndResize) && Given(args.in, i)) {
      all = false;
    }
  }
  if (all) {
    views[0] = {x.dtype, *concrete, nullptr, nullptr};
    TENON_ASSIGN_OR_RETURN(const Shape shape, ResizedShape(params, views));
    SetOutput(args, 0, x.dtype, shape);
    return {};
  }
  if (by_size && params.aspect == Aspect::kStretch) {
    if (auto sizes = KnownElements(args.in[3])) {
      if (sizes->size() != places.size()) return BadInput("sizes has {} values; allowed: {}", sizes->size(), places.size());
      for (size_t i = 0; i < places.size(); ++i) y[places[i]] = (*sizes)[i];
    }
  } else if (by_scale && args.in[2].data != nullptr && params.transform != Transform::kTfCropAndResize) {
    const View& s = *args.in[2].data;
    if (s.dtype != DType::kF32 || s.num_elements() != static_cast<int64_t>(places.size())) {
      return BadInput("scales are {} {}; allowed: float32 [{}]", DTypeName(s.dtype), s.shape.ToString(), places.size());
    }
    for (size_t i = 0; i < places.size(); ++i) {
      if (!(s.Data<float>()[i] > 0)) return BadInput("scales[{}] is {}; allowed: more than 0", i, s.Data<float>()[i]);
      y[places[i]] = Scaled(x.shape[places[i]], s.Data<float>()[i]);
    }
  }
  SetOutput(args, 0, x.dtype, y);
  return {};
}

}  // namespace tenon::kernels::resize
