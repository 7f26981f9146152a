// Pooling, plainly: one output element at a time.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/pool/pool.h"

namespace tenon::kernels::pool {
namespace {

template <typename T>
double Least() {
  if constexpr (std::is_integral_v<T>) {
    return std::numeric_limits<T>::min();
  } else {
    return -std::numeric_limits<double>::infinity();
  }
}

// The window of one output position: calls f(offset in the spatial plane, column-major offset) for every tap on the input.
struct Window {
  const Axis* axes;
  int spatial;
  int64_t at[kMaxRank];

  template <typename F>
  void Each(F&& f) const {
    int64_t first[kMaxRank], last[kMaxRank], tap[kMaxRank];
    for (int d = 0; d < spatial; ++d) {
      axes[d].Taps(at[d], &first[d], &last[d]);
      if (first[d] >= last[d]) return;
      tap[d] = first[d];
    }
    for (;;) {
      int64_t row_major = 0, column_major = 0, step = 1;
      for (int d = 0; d < spatial; ++d) {
        const int64_t i = axes[d].start(at[d]) + tap[d] * axes[d].dilation;
        row_major = row_major * axes[d].in + i;
        column_major += i * step;
        step *= axes[d].in;
      }
      f(row_major, column_major);
      int d = spatial - 1;
      for (; d >= 0; --d) {
        if (++tap[d] < last[d]) break;
        tap[d] = first[d];
      }
      if (d < 0) return;
    }
  }
  int64_t Padded() const {
    int64_t n = 1;
    for (int d = 0; d < spatial; ++d) n *= axes[d].PaddedTaps(at[d]);
    return n;
  }
};

template <typename T>
double PoolOne(const PoolParams& params, const Window& window, const T* x, int64_t step, int64_t* index) {
  double acc = params.kind == Kind::kMax ? Least<T>() : 0;
  int64_t count = 0;
  *index = -1;
  window.Each([&](int64_t at, int64_t column_major) {
    const double v = LoadF(x[at * step]);
    ++count;
    switch (params.kind) {
      case Kind::kMax:
        if (v > acc || *index < 0) {
          if (v > acc) acc = v;
          *index = params.column_major ? column_major : at;
        }
        break;
      case Kind::kAverage: acc += v; break;
      case Kind::kLp: acc += std::pow(std::fabs(v), static_cast<double>(params.p)); break;
    }
  });
  if (params.kind == Kind::kLp) return std::pow(acc, 1.0 / static_cast<double>(params.p));
  if (params.kind == Kind::kMax) return acc;
  if (params.count_include_pad) count = window.Padded();
  return count == 0 ? 0 : acc / static_cast<double>(count);
}

}  // namespace

Status RunPoolReference(const PoolParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  Axis axes[kMaxRank];
  TENON_RETURN_IF_ERROR(ResolveAxes(params, x.shape, axes));
  const Shape shape = PooledShape(params, x.shape, axes);
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
  int64_t* indices = nullptr;
  if (Wants(std::span<const MutView>(args.out), 1)) {
    if (params.nhwc) return BadInput("Indices are not given with data_layout NHWC");
    TENON_ASSIGN_OR_RETURN(const MutView i, TakeOutput(args, 1, shape));
    indices = i.Data<int64_t>();
  }
  int64_t in_plane = 1, out_plane = 1;
  for (int d = 0; d < params.spatial; ++d) in_plane *= axes[d].in, out_plane *= axes[d].out;
  const int64_t channels = params.nhwc ? x.shape.dim(-1) : x.shape[1];
  const int64_t step = params.nhwc ? channels : 1;
  const bool known = DispatchDType<TENON_FLOAT_TYPES, int8_t, uint8_t>(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t plane = 0; plane < x.shape[0] * channels; ++plane) {
      const int64_t b = plane / channels, c = plane % channels;
      const int64_t x0 = params.nhwc ? b * in_plane * channels + c : plane * in_plane;
      const int64_t y0 = params.nhwc ? b * out_plane * channels + c : plane * out_plane;
      for (int64_t o = 0; o < out_plane; ++o) {
        Window window{axes, params.spatial, {}};
        int64_t rest = o;
        for (int d = params.spatial - 1; d >= 0; --d) {
          window.at[d] = rest % axes[d].out;
          rest /= axes[d].out;
        }
        int64_t index = -1;
        y.Data<T>()[y0 + o * step] = StoreF<T>(PoolOne(params, window, x.Data<T>() + x0, step, &index));
        if (indices != nullptr) indices[y0 + o] = index < 0 ? -1 : x0 + index;
      }
    }
  });
  return known ? Status() : Unsupported("pooling of {}", DTypeName(x.dtype));
}

Status RunGlobalReference(const GlobalParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  if (x.shape.rank() < 2) return BadInput("x has rank {}; allowed: 2 or more", x.shape.rank());
  Shape shape = x.shape;
  const int first = params.nhwc ? 1 : 2, last = params.nhwc ? x.shape.rank() - 1 : x.shape.rank();
  const int64_t n = x.shape.Product(first, last);
  for (int i = first; i < last; ++i) shape[i] = 1;
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
  const int64_t channels = params.nhwc ? x.shape.dim(-1) : x.shape[1];
  const int64_t step = params.nhwc ? channels : 1;
  for (int64_t i = 0; i < x.shape[0] * channels; ++i) {
    const int64_t base = params.nhwc ? i / channels * n * channels + i % channels : i * n;
    double acc = params.kind == Kind::kMax ? -std::numeric_limits<double>::infinity() : 0;
    for (int64_t k = 0; k < n; ++k) {
      const double v = LoadAt(x, base + k * step);
      switch (params.kind) {
        case Kind::kMax: acc = std::isnan(acc) || acc >= v ? acc : v; break;
        case Kind::kAverage: acc += v; break;
        case Kind::kLp: acc += std::pow(std::fabs(v), static_cast<double>(params.p)); break;
      }
    }
    if (params.kind == Kind::kAverage) acc /= static_cast<double>(n);
    if (params.kind == Kind::kLp) acc = std::pow(acc, 1.0 / static_cast<double>(params.p));
    StoreAt(y, i, acc);
  }
  return {};
}

}  // namespace tenon::kernels::pool
