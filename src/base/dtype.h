// Facts about element types: names, sizes, classes.
#ifndef TENON_BASE_DTYPE_H_
#define TENON_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tenon/types.h"

namespace tenon {

/// NumPy-like name: "float32", "int64", "bool", "string", "bfloat16", "float8_e4m3fn", "int4", ...
std::string_view DTypeName(DType t);
std::optional<DType> DTypeFromName(std::string_view name);

/// True for every value that DType names, except kUndefined.
bool IsValidDType(int32_t raw);

/// Bits per element; 0 for kString and kUndefined. 4- and 2-bit types are packed, low bits first, as ONNX packs them.
int DTypeBits(DType t);

/// Bytes of `count` packed elements (rounded up); for kString the size of std::string objects. `count` >= 0.
size_t DTypeBytes(DType t, int64_t count);

bool IsFloat(DType t);    ///< f16 f32 f64 bf16 and the float8/float4 kinds
bool IsInteger(DType t);  ///< signed and unsigned integers, without bool
bool IsSigned(DType t);

/// The DType of a C++ type, for types that have one.
template <typename T>
struct DTypeOf;

}  // namespace tenon

#include "base/dtype_traits.h"

#endif  // TENON_BASE_DTYPE_H_
