// One element of any plain numeric type as double: for reference kernels and for ops where speed does not matter.
// int64 and uint64 beyond 2^53 lose their last bits.
#ifndef TENON_KERNELS_ELEMENT_H_
#define TENON_KERNELS_ELEMENT_H_

#include <limits>
#include <type_traits>

#include "base/dtype.h"
#include "kernels/float_io.h"

namespace tenon::kernels {

/// f32 f64 f16 bf16, the integers of 8 to 64 bits, bool (0 and 1).
inline bool IsPlainNumeric(DType t) {
  return DispatchDType<TENON_NUMERIC_TYPES, bool>(t, [](auto) {});
}

inline double LoadDouble(DType t, const void* data, int64_t i) {
  double v = 0;
  DispatchDType<TENON_NUMERIC_TYPES, bool>(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T raw = static_cast<const T*>(data)[i];
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      v = static_cast<float>(raw);
    } else {
      v = static_cast<double>(raw);
    }
  });
  return v;
}

/// Floats are rounded to nearest; integers take the value truncated towards zero, held to their range (NaN: 0).
inline void StoreDouble(DType t, void* data, int64_t i, double v) {
  DispatchDType<TENON_NUMERIC_TYPES, bool>(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T& to = static_cast<T*>(data)[i];
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      to = T(static_cast<float>(v));
    } else if constexpr (std::is_same_v<T, bool>) {
      to = v != 0;
    } else if constexpr (std::is_floating_point_v<T>) {
      to = static_cast<T>(v);
    } else {
      constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
      constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
      to = v != v       ? T{0}
           : v <= kLow  ? std::numeric_limits<T>::min()
           : v >= kHigh ? std::numeric_limits<T>::max()
                        : static_cast<T>(v);
    }
  });
}

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_ELEMENT_H_
