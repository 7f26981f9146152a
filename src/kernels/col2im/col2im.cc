#include "kernels/col2im/col2im.h"

#include <algorithm>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/movement/element.h"

namespace tenon::kernels::col2im {
namespace {

// Bounds every extent, stride, dilation and pad, so that sums of products of two stay far from overflow.
constexpr int64_t kLimit = int64_t{1} << 31;

using Complex64 = std::complex<float>;
using Complex128 = std::complex<double>;
#define COL2IM_TYPES TENON_NUMERIC_TYPES, bool, Complex64, Complex128

bool Serves(DType t) {
  return DispatchDType<COL2IM_TYPES>(t, [](auto) {});
}

Status CheckList(std::string_view what, std::span<const int64_t> values, int64_t least) {
  for (int64_t v : values) {
    if (v < least || v > kLimit) return BadInput("{} holds {}; allowed: {} to {}", what, v, least, kLimit);
  }
  return {};
}

Status CheckList(std::string_view what, const std::optional<std::vector<Dim>>& dims, int64_t least) {
  if (!dims) return {};
  for (const Dim& d : *dims) {
    if (d.is_const()) TENON_RETURN_IF_ERROR(CheckList(what, std::vector<int64_t>{d.value()}, least));
  }
  return {};
}

// The number of spatial axes, as far as one of the inputs tells.
Result<int> Spatial(const ShapeArgs& args, const std::optional<std::vector<Dim>>* lists) {
  int64_t spatial = -1;
  for (size_t i = 1; i < 3; ++i) {
    const ValueInfo& v = args.in[i];
    if (v.dtype != DType::kUndefined && v.dtype != DType::kI64) {
      return BadInput("input {} is {}; int64 needed", i, DTypeName(v.dtype));
    }
    if (v.shape.has_rank() && v.shape.rank() != 1) return BadInput("input {} of shape {}; a list needed", i, v.shape.ToString());
    int64_t count = -1;
    if (lists[i]) count = static_cast<int64_t>(lists[i]->size());
    if (v.shape.has_rank() && v.shape[0].is_const()) count = v.shape[0].value();
    if (count < 0) continue;
    if (count < 1 || count > kMaxSpatial) return BadInput("input {} lists {} extents; allowed: 1 to {}", i, count, kMaxSpatial);
    if (spatial >= 0 && count != spatial) return BadInput("image_shape and block_shape differ in length");
    spatial = count;
  }
  return static_cast<int>(spatial);
}

Status Infer(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(ParseParams("Col2Im", args.attrs).status());
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && !Serves(t)) return Unsupported("input is {}; a numeric type needed", DTypeName(t));
  const SymShape& x = args.in[0].shape;
  if (x.has_rank() && x.rank() != 3) return BadInput("input of shape {}; [n, channels * block, blocks] needed", x.ToString());
  const std::optional<std::vector<Dim>> lists[3] = {std::nullopt, KnownElements(args.in[1]), KnownElements(args.in[2])};
  TENON_ASSIGN_OR_RETURN(const int spatial, Spatial(args, lists));
  TENON_RETURN_IF_ERROR(CheckList("image_shape", lists[1], 0));
  TENON_RETURN_IF_ERROR(CheckList("block_shape", lists[2], 1));
  SymShape y;
  if (spatial > 0) {
    y = SymShape::OfRank(spatial + 2);
    if (x.has_rank()) y[0] = x[0];
    if (x.has_rank() && lists[2]) {
      Dim taps(1);
      for (const Dim& d : *lists[2]) taps = taps * d;
      if (auto channels = Dim::ExactDiv(x[1], taps)) y[1] = *channels;
    }
    for (int d = 0; lists[1] && d < spatial; ++d) y[d + 2] = (*lists[1])[static_cast<size_t>(d)];
  }
  if (const auto shape = y.has_rank() ? y.ToShape() : std::nullopt) TENON_RETURN_IF_ERROR(CheckedShape(shape->dims()).status());
  SetOutput(args, 0, t, std::move(y));
  return {};
}

// Integers are summed modulo 2^64: wrapping, as fixed width addition does.
template <typename T>
auto Widen(T v) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(v);
  } else if constexpr (std::is_same_v<T, Complex64> || std::is_same_v<T, Complex128>) {
    return Complex128(v);
  } else {
    return LoadF(v);
  }
}

template <typename T, typename S>
T Narrow(S s) {
  if constexpr (std::is_same_v<T, bool>) {
    return s != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(s);
  } else if constexpr (std::is_same_v<S, Complex128>) {
    return T(static_cast<typename T::value_type>(s.real()), static_cast<typename T::value_type>(s.imag()));
  } else {
    return StoreF<T>(s);
  }
}

// One pixel of one plane: the sum of the taps that meet it. `x` is the plane's [taps, columns].
template <typename T>
T Pixel(const Geometry& g, const T* x, int64_t pixel) {
  int64_t at[kMaxSpatial];
  for (int d = g.spatial - 1; d >= 0; --d) {
    at[d] = pixel % g.image[d] + g.pad[d];
    pixel /= g.image[d];
  }
  decltype(Widen(T{})) sum{};
  for (int64_t tap = 0; tap < g.taps; ++tap) {
    int64_t rest = tap, column = 0, step = 1;
    bool meets = true;
    for (int d = g.spatial - 1; d >= 0 && meets; --d) {
      const int64_t from = at[d] - rest % g.block[d] * g.dilation[d];
      rest /= g.block[d];
      meets = from >= 0 && from % g.stride[d] == 0 && from / g.stride[d] < g.blocks[d];
      column += from / g.stride[d] * step;
      step *= g.blocks[d];
    }
    if (meets) sum += Widen(x[tap * g.columns + column]);
  }
  return Narrow<T>(sum);
}

// Adds the columns of one tap to a plane, row by row along the last axis.
void AddTap(const Geometry& g, const float* x, int64_t tap, float* y) {
  const int last = g.spatial - 1;
  int64_t offset[kMaxSpatial], b[kMaxSpatial] = {};
  for (int d = last; d >= 0; --d) {
    offset[d] = tap % g.block[d] * g.dilation[d] - g.pad[d];
    tap /= g.block[d];
  }
  const int64_t stride = g.stride[last], shift = offset[last];
  const int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const int64_t room = g.image[last] - shift;
  const int64_t end = room <= 0 ? 0 : std::min(g.blocks[last], (room + stride - 1) / stride);
  const int64_t rows = g.columns / g.blocks[last];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t base = 0;
    bool inside = true;
    for (int d = 0; d < last; ++d) {
      const int64_t i = b[d] * g.stride[d] + offset[d];
      inside = inside && i >= 0 && i < g.image[d];
      base = base * g.image[d] + i;
    }
    if (inside) {
      const float* from = x + row * g.blocks[last];
      float* to = y + base * g.image[last] + shift;
      for (int64_t i = first; i < end; ++i) to[i * stride] += from[i];
    }
    for (int d = last - 1; d >= 0 && ++b[d] == g.blocks[d]; --d) b[d] = 0;
  }
}

Result<Geometry> Prepare(const Params& p, const RunArgs& args) {
  movement::SmallInts image, block;
  TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[1], "image_shape", &image));
  TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[2], "block_shape", &block));
  TENON_ASSIGN_OR_RETURN(const Geometry g, Resolve(p, args.in[0].shape, image.span(), block.span()));
  Shape y{g.n, g.c};
  for (int d = 0; d < g.spatial; ++d) y.push_back(g.image[d]);
  TENON_RETURN_IF_ERROR(TakeOutput(args, 0, y).status());
  return g;
}

Status RunReference(const Params& p, const RunArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Geometry g, Prepare(p, args));
  const bool served = DispatchDType<COL2IM_TYPES>(args.in[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in[0].Data<T>();
    T* y = args.out[0].Data<T>();
    args.team.ParallelFor(g.n * g.c * g.pixels, 1024, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) y[i] = Pixel(g, x + i / g.pixels * g.taps * g.columns, i % g.pixels);
    });
  });
  return served ? Status() : Unsupported("Col2Im of {}", DTypeName(args.in[0].dtype));
}

Status RunRows(const Params& p, const RunArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Geometry g, Prepare(p, args));
  const float* x = args.in[0].Data<float>();
  float* y = args.out[0].Data<float>();
  const int64_t grain = std::max<int64_t>(1, 20000 / std::max<int64_t>(1, g.taps * g.columns));
  args.team.ParallelFor(g.n * g.c, grain, [&](int64_t begin, int64_t end, int) {
    std::fill(y + begin * g.pixels, y + end * g.pixels, 0.0F);
    for (int64_t plane = begin; plane < end; ++plane) {
      for (int64_t tap = 0; tap < g.taps; ++tap) {
        AddTap(g, x + (plane * g.taps + tap) * g.columns, tap, y + plane * g.pixels);
      }
    }
  });
  return {};
}

constexpr auto MakeReference = MakeParam<Params, ParseParams, RunReference>;
constexpr auto MakeRows = MakeParam<Params, ParseParams, RunRows>;

}  // namespace

Result<Params> ParseParams(std::string_view /*op*/, const Attrs& attrs) {
  Params p{attrs.Ints("dilations"), attrs.Ints("pads"), attrs.Ints("strides")};
  TENON_RETURN_IF_ERROR(CheckList("attribute dilations", p.dilations, 1));
  TENON_RETURN_IF_ERROR(CheckList("attribute pads", p.pads, 0));
  TENON_RETURN_IF_ERROR(CheckList("attribute strides", p.strides, 1));
  return p;
}

Result<Geometry> Resolve(const Params& params, const Shape& x, std::span<const int64_t> image, std::span<const int64_t> block) {
  if (x.rank() != 3) return BadInput("input of shape {}; [n, channels * block, blocks] needed", x.ToString());
  if (image.empty() || image.size() > kMaxSpatial || block.size() != image.size()) {
    return BadInput("image_shape lists {} extents and block_shape {}; equally many needed, 1 to {}", image.size(), block.size(),
                    kMaxSpatial);
  }
  TENON_RETURN_IF_ERROR(CheckList("image_shape", image, 0));
  TENON_RETURN_IF_ERROR(CheckList("block_shape", block, 1));
  const size_t n = image.size();
  const auto fits = [](size_t given, size_t wanted) { return given == 0 || given == wanted; };
  if (!fits(params.strides.size(), n) || !fits(params.dilations.size(), n) || !fits(params.pads.size(), 2 * n)) {
    return BadInput("strides, dilations and pads list {}, {} and {} numbers for {} axes", params.strides.size(),
                    params.dilations.size(), params.pads.size(), n);
  }
  Geometry g;
  g.spatial = static_cast<int>(n);
  g.n = x[0];
  for (size_t d = 0; d < n; ++d) {
    g.image[d] = image[d];
    g.block[d] = block[d];
    g.stride[d] = params.strides.empty() ? 1 : params.strides[d];
    g.dilation[d] = params.dilations.empty() ? 1 : params.dilations[d];
    g.pad[d] = params.pads.empty() ? 0 : params.pads[d];
    const int64_t padded = image[d] + g.pad[d] + (params.pads.empty() ? 0 : params.pads[n + d]);
    const auto reach = CheckedMul(g.dilation[d], block[d] - 1);
    if (!reach || *reach >= padded) return BadInput("a block of {} on axis {} is larger than the padded image", block[d], d);
    g.blocks[d] = (padded - *reach - 1) / g.stride[d] + 1;
    const auto taps = CheckedMul(g.taps, block[d]);
    const auto columns = CheckedMul(g.columns, g.blocks[d]);
    if (!taps || !columns || *taps > int64_t{1} << 48 || *columns > int64_t{1} << 48) return BadInput("too many blocks");
    g.taps = *taps;
    g.columns = *columns;
  }
  if (x[1] % g.taps != 0 || x[2] != g.columns) {
    return BadInput("input of shape {}; the second extent must be a multiple of {} and the third {}", x.ToString(), g.taps,
                    g.columns);
  }
  g.c = x[1] / g.taps;
  Shape y{g.n, g.c};
  for (int64_t extent : image) y.push_back(extent);
  TENON_RETURN_IF_ERROR(CheckedShape(y.dims()).status());
  g.pixels = y.Product(2, y.rank());
  return g;
}

std::span<const OpKernels> Operators() {
  static const Row rows[] = {
#define KERNEL(name, needs, can, make) {name, needs, can, make},
#include "kernels/col2im/kernels.inc"
#undef KERNEL
  };
  static const OpKernels operators[] = {{"Col2Im", Infer, rows, 3, 3, 1, 1}};
  return operators;
}

}  // namespace tenon::kernels::col2im
