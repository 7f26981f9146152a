// C++ type <-> DType, and a switch that calls a generic lambda with the C++ type of a DType. Included by base/dtype.h.
#ifndef TENON_BASE_DTYPE_TRAITS_H_
#define TENON_BASE_DTYPE_TRAITS_H_

#include <complex>
#include <cstdint>
#include <string>

#include "base/half.h"
#include "tenon/types.h"

namespace tenon {

template <typename T>
struct DTypeOf;
#define TENON_DTYPE_OF(cpp, dtype)               \
  template <>                                    \
  struct DTypeOf<cpp> {                          \
    static constexpr DType value = DType::dtype; \
  }
TENON_DTYPE_OF(float, kF32);
TENON_DTYPE_OF(double, kF64);
TENON_DTYPE_OF(Half, kF16);
TENON_DTYPE_OF(BFloat16, kBF16);
TENON_DTYPE_OF(int8_t, kI8);
TENON_DTYPE_OF(uint8_t, kU8);
TENON_DTYPE_OF(int16_t, kI16);
TENON_DTYPE_OF(uint16_t, kU16);
TENON_DTYPE_OF(int32_t, kI32);
TENON_DTYPE_OF(uint32_t, kU32);
TENON_DTYPE_OF(int64_t, kI64);
TENON_DTYPE_OF(uint64_t, kU64);
TENON_DTYPE_OF(bool, kBool);
TENON_DTYPE_OF(std::string, kString);
TENON_DTYPE_OF(std::complex<float>, kC64);
TENON_DTYPE_OF(std::complex<double>, kC128);
#undef TENON_DTYPE_OF

template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls f(TypeTag<T>{}) for the listed T whose DType is `t`; returns false when none matches.
template <typename... Ts, typename F>
bool DispatchDType(DType t, F&& f) {
  return ((DTypeOf<Ts>::value == t ? (f(TypeTag<Ts>{}), true) : false) || ...);
}

// Type lists for DispatchDType through a macro, so that call sites stay one line.
#define TENON_SIGNED_INT_TYPES int8_t, int16_t, int32_t, int64_t
#define TENON_UNSIGNED_INT_TYPES uint8_t, uint16_t, uint32_t, uint64_t
#define TENON_INT_TYPES TENON_SIGNED_INT_TYPES, TENON_UNSIGNED_INT_TYPES
#define TENON_FLOAT_TYPES float, double, ::tenon::Half, ::tenon::BFloat16
#define TENON_NUMERIC_TYPES TENON_FLOAT_TYPES, TENON_INT_TYPES

}  // namespace tenon

#endif  // TENON_BASE_DTYPE_TRAITS_H_
