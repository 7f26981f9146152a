// Elements of the four float types as doubles and back, for references: wide in the middle, one rounding at the end.
#ifndef TENON_KERNELS_FLOAT_IO_H_
#define TENON_KERNELS_FLOAT_IO_H_

#include <type_traits>

#include "tensor/tensor.h"

namespace tenon::kernels {

template <typename T>
double LoadF(T v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(v));
  } else {
    return static_cast<double>(v);
  }
}

template <typename T>
T StoreF(double v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(v));
  } else {
    return static_cast<T>(v);
  }
}

inline bool IsPlainFloat(DType t) {
  return t == DType::kF32 || t == DType::kF64 || t == DType::kF16 || t == DType::kBF16;
}

/// Element i of a tensor whose type IsPlainFloat.
inline double LoadAt(const View& v, int64_t i) {
  switch (v.dtype) {
    case DType::kF32: return v.Data<float>()[i];
    case DType::kF64: return v.Data<double>()[i];
    case DType::kF16: return LoadF(v.Data<Half>()[i]);
    default: return LoadF(v.Data<BFloat16>()[i]);
  }
}
inline void StoreAt(const MutView& v, int64_t i, double value) {
  switch (v.dtype) {
    case DType::kF32: v.Data<float>()[i] = static_cast<float>(value); break;
    case DType::kF64: v.Data<double>()[i] = value; break;
    case DType::kF16: v.Data<Half>()[i] = StoreF<Half>(value); break;
    default: v.Data<BFloat16>()[i] = StoreF<BFloat16>(value); break;
  }
}

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_FLOAT_IO_H_
