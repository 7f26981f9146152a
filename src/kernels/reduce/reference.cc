// Reductions, plainly: one output element at a time, accumulated in double or 64-bit integers.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/kernel_util.h"
#include "kernels/reduce/reduce.h"

namespace tenon::kernels::reduce {
namespace {

template <typename T>
inline constexpr bool kIsFloat = !std::is_integral_v<T>;
template <typename T>
using Acc = std::conditional_t<kIsFloat<T>, double, std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>>;

template <typename T>
Acc<T> Load(T v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(v));
  } else {
    return static_cast<Acc<T>>(v);
  }
}

template <typename T>
T Store(Acc<T> v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(v));
  } else {
    return static_cast<T>(v);
  }
}

// Double to the integer type of a result, defined for every double.
template <typename T>
T FromDouble(double v) {
  if constexpr (kIsFloat<T>) {
    return Store<T>(v);
  } else {
    if (!(v > static_cast<double>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
    if (v >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(v);
  }
}

// Wrapping arithmetic for integers.
template <typename A>
A Add(A a, A b) {
  if constexpr (std::is_same_v<A, double>) {
    return a + b;
  } else {
    return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}
template <typename A>
A Mul(A a, A b) {
  if constexpr (std::is_same_v<A, double>) {
    return a * b;
  } else {
    return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
}
template <typename A>
A Abs(A a) {
  if constexpr (std::is_same_v<A, double>) {
    return std::fabs(a);
  } else {
    return a < A{0} ? static_cast<A>(0 - static_cast<uint64_t>(a)) : a;
  }
}

template <typename A>
bool IsNan(A a) {
  if constexpr (std::is_same_v<A, double>) {
    return std::isnan(a);
  } else {
    return false;
  }
}

// Walks the elements of one reduction: base offset plus every combination of the reduced coordinates.
class Walk {
 public:
  Walk(const Shape& in, uint32_t mask) {
    int64_t stride = 1;
    for (int i = in.rank() - 1; i >= 0; --i) {
      if ((mask >> i & 1) != 0) {
        extent_[n_] = in[i];
        stride_[n_++] = stride;
        count_ *= in[i];
      }
      stride *= in[i];
    }
  }
  int64_t count() const { return count_; }
  template <typename F>
  void Each(int64_t base, F&& f) const {
    int64_t at[kMaxRank] = {};
    int64_t offset = base;
    for (int64_t k = 0; k < count_; ++k) {
      f(offset, k);
      for (int d = 0; d < n_; ++d) {
        offset += stride_[d];
        if (++at[d] < extent_[d]) break;
        offset -= stride_[d] * extent_[d];
        at[d] = 0;
      }
    }
  }

 private:
  int n_ = 0;
  int64_t count_ = 1;
  int64_t extent_[kMaxRank] = {}, stride_[kMaxRank] = {};
};

// Offset in the input of output element `index` (reduced coordinates 0).
int64_t BaseOffset(const Shape& in, uint32_t mask, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = in.rank() - 1; i >= 0; --i) {
    if ((mask >> i & 1) == 0) {
      offset += index % in[i] * stride;
      index /= in[i];
    }
    stride *= in[i];
  }
  return offset;
}

template <typename T>
Acc<T> Start(Kind kind) {
  using A = Acc<T>;
  if (kind == Kind::kProd) return A{1};
  if (kind != Kind::kMax && kind != Kind::kMin) return A{0};
  if constexpr (kIsFloat<T>) {
    const double inf = std::numeric_limits<double>::infinity();
    return kind == Kind::kMax ? -inf : inf;
  } else {
    return static_cast<A>(kind == Kind::kMax ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max());
  }
}

template <typename A>
A Combine(Kind kind, A acc, A v) {
  switch (kind) {
    case Kind::kMax: return IsNan(acc) || acc >= v ? acc : v;
    case Kind::kMin: return IsNan(acc) || acc <= v ? acc : v;
    case Kind::kProd: return Mul(acc, v);
    case Kind::kL1: return Add(acc, Abs(v));
    case Kind::kL2:
    case Kind::kSumSquare: return Add(acc, Mul(v, v));
    default: return Add(acc, v);
  }
}

template <typename T>
T ReduceOne(Kind kind, const T* x, const Walk& walk, int64_t base) {
  using A = Acc<T>;
  if (kind == Kind::kLogSumExp) {
    double max = -std::numeric_limits<double>::infinity();
    walk.Each(base, [&](int64_t o, int64_t) { max = Combine(Kind::kMax, max, static_cast<double>(Load(x[o]))); });
    if (std::isinf(max)) return FromDouble<T>(max);
    double sum = 0;
    walk.Each(base, [&](int64_t o, int64_t) { sum += std::exp(static_cast<double>(Load(x[o])) - max); });
    return FromDouble<T>(max + std::log(sum));
  }
  A acc = Start<T>(kind);
  walk.Each(base, [&](int64_t o, int64_t) { acc = Combine(kind, acc, Load(x[o])); });
  switch (kind) {
    case Kind::kMean:
      if constexpr (kIsFloat<T>) {
        return Store<T>(acc / static_cast<double>(walk.count()));
      } else {
        return static_cast<T>(acc / static_cast<A>(walk.count()));
      }
    case Kind::kL2: return FromDouble<T>(std::sqrt(static_cast<double>(acc)));
    case Kind::kLogSum: return FromDouble<T>(std::log(static_cast<double>(acc)));
    default: return Store<T>(acc);
  }
}

}  // namespace

Status RunReduceReference(const ReduceParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  TENON_ASSIGN_OR_RETURN(const uint32_t mask, AxesMask(params, args));
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, ReducedShape(x.shape, mask, params.keepdims)));
  const Walk walk(x.shape, mask);
  const int64_t n = out.num_elements();
  if (n > 0 && walk.count() == 0 && params.kind == Kind::kMean && !IsFloat(x.dtype)) {
    return BadInput("the mean of no {} values is not defined", DTypeName(x.dtype));
  }
  const bool known = DispatchDType<TENON_NUMERIC_TYPES, bool>(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = out.Data<T>();
    for (int64_t i = 0; i < n; ++i) y[i] = ReduceOne<T>(params.kind, x.Data<T>(), walk, BaseOffset(x.shape, mask, i));
  });
  return known ? Status() : Unsupported("reduction of {}", DTypeName(x.dtype));
}

Status RunArgReference(const ArgParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(params.axis, x.shape.rank()));
  const uint32_t mask = 1u << axis;
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, ReducedShape(x.shape, mask, params.keepdims)));
  if (x.shape[axis] == 0) return BadInput("axis {} has extent 0; an index needs at least one element", axis);
  const Walk walk(x.shape, mask);
  int64_t* y = out.Data<int64_t>();
  const int64_t n = out.num_elements();
  const bool known = DispatchDType<TENON_NUMERIC_TYPES>(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < n; ++i) {
      Acc<T> best{};
      int64_t at = 0;
      walk.Each(BaseOffset(x.shape, mask, i), [&](int64_t o, int64_t k) {
        const Acc<T> v = Load(x.Data<T>()[o]);
        const bool better = k == 0 || (!IsNan(best) && (IsNan(v) || (params.max ? v > best : v < best)));
        const bool equal = v == best || (IsNan(v) && IsNan(best));
        if (better || (params.select_last_index && equal)) {
          best = v;
          at = k;
        }
      });
      y[i] = at;
    }
  });
  return known ? Status() : Unsupported("index of the extremum of {}", DTypeName(x.dtype));
}

}  // namespace tenon::kernels::reduce
