// Resize, plainly: nearest moves elements of any type; linear and cubic go axis by axis in double.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/resize/resize.h"

namespace tenon::kernels::resize {
namespace {

// Rounds half to even and saturates for integers.
template <typename T>
T FromDouble(double v) {
  if constexpr (std::is_integral_v<T>) {
    v = std::nearbyint(v);
    if (!(v > static_cast<double>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
    if (v >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(v);
  } else {
    return StoreF<T>(v);
  }
}

// Offset in x of output element `o` for nearest; -1 when it is extrapolated.
int64_t Source(const Plan& plan, int64_t o) {
  int64_t offset = 0, stride = 1;
  bool outside = false;
  for (size_t d = plan.axes.size(); d-- > 0;) {
    const AxisTable& t = plan.axes[d];
    const int64_t at = o % t.out;
    o /= t.out;
    offset += (t.identity ? at : t.index[static_cast<size_t>(at)]) * stride;
    outside = outside || (!t.outside.empty() && t.outside[static_cast<size_t>(at)]);
    stride *= t.in;
  }
  return outside ? -1 : offset;
}

template <typename T>
void MoveNearest(const ResizeParams& params, const Plan& plan, const View& x, const MutView& y) {
  for (int64_t o = 0; o < y.num_elements(); ++o) {
    const int64_t s = Source(plan, o);
    if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::complex<float>> ||
                  std::is_same_v<T, std::complex<double>>) {
      y.Data<T>()[o] = s < 0 ? T() : x.Data<T>()[s];
    } else {
      y.Data<T>()[o] = s < 0 ? FromDouble<T>(static_cast<double>(params.extrapolation)) : x.Data<T>()[s];
    }
  }
}

// One axis of [outer, in, inner].
std::vector<double> Along(const std::vector<double>& x, const AxisTable& t, int64_t outer, int64_t inner, double extrapolation) {
  std::vector<double> y(static_cast<size_t>(outer * t.out * inner));
  for (int64_t i = 0; i < outer * t.out * inner; ++i) {
    const int64_t o = i / inner % t.out, base = i / inner / t.out * t.in * inner + i % inner;
    double acc = 0;
    for (int64_t k = 0; k < t.taps; ++k) {
      const auto slot = static_cast<size_t>(o * t.taps + k);
      acc += t.weight[slot] * x[static_cast<size_t>(base + t.index[slot] * inner)];
    }
    if (!t.outside.empty() && t.outside[static_cast<size_t>(o)]) acc = extrapolation;
    y[static_cast<size_t>(i)] = acc;
  }
  return y;
}

template <typename T>
void Interpolate(const ResizeParams& params, const Plan& plan, const View& x, const MutView& y) {
  std::vector<double> v(static_cast<size_t>(x.num_elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = LoadF(x.Data<T>()[i]);
  Shape s = x.shape;
  for (int d = 0; d < s.rank(); ++d) {
    const AxisTable& t = plan.axes[static_cast<size_t>(d)];
    if (t.identity) continue;
    v = Along(v, t, s.Product(0, d), s.Product(d + 1, s.rank()), static_cast<double>(params.extrapolation));
    s[d] = t.out;
  }
  for (size_t i = 0; i < v.size(); ++i) y.Data<T>()[i] = FromDouble<T>(v[i]);
}

}  // namespace

Status RunResizeReference(const ResizeParams& params, const Plan& plan, const RunArgs& args, const MutView& y) {
  const View& x = args.in[0];
  if (y.num_elements() == 0) return {};
  bool known = false;
  if (params.mode == Mode::kNearest) {
    known = DispatchDType<TENON_NUMERIC_TYPES, bool, std::string, std::complex<float>, std::complex<double>>(
        x.dtype, [&](auto tag) { MoveNearest<typename decltype(tag)::type>(params, plan, x, y); });
  } else {
    known = DispatchDType<TENON_NUMERIC_TYPES>(x.dtype,
                                               [&](auto tag) { Interpolate<typename decltype(tag)::type>(params, plan, x, y); });
  }
  return known ? Status() : Unsupported("resizing of {}", DTypeName(x.dtype));
}

}  // namespace tenon::kernels::resize
