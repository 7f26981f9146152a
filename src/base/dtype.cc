#include "base/dtype.h"

#include <array>
#include <string>

namespace tenon {
namespace {

struct Row {
  DType type;
  std::string_view name;
  int bits;
  bool is_float;
  bool is_integer;
  bool is_signed;
};

constexpr std::array kRows = {
    Row{DType::kF32, "float32", 32, true, false, true},
    Row{DType::kU8, "uint8", 8, false, true, false},
    Row{DType::kI8, "int8", 8, false, true, true},
    Row{DType::kU16, "uint16", 16, false, true, false},
    Row{DType::kI16, "int16", 16, false, true, true},
    Row{DType::kI32, "int32", 32, false, true, true},
    Row{DType::kI64, "int64", 64, false, true, true},
    Row{DType::kString, "string", 0, false, false, false},
    Row{DType::kBool, "bool", 8, false, false, false},
    Row{DType::kF16, "float16", 16, true, false, true},
    Row{DType::kF64, "float64", 64, true, false, true},
    Row{DType::kU32, "uint32", 32, false, true, false},
    Row{DType::kU64, "uint64", 64, false, true, false},
    Row{DType::kC64, "complex64", 64, false, false, true},
    Row{DType::kC128, "complex128", 128, false, false, true},
    Row{DType::kBF16, "bfloat16", 16, true, false, true},
    Row{DType::kF8E4M3FN, "float8_e4m3fn", 8, true, false, true},
    Row{DType::kF8E4M3FNUZ, "float8_e4m3fnuz", 8, true, false, true},
    Row{DType::kF8E5M2, "float8_e5m2", 8, true, false, true},
    Row{DType::kF8E5M2FNUZ, "float8_e5m2fnuz", 8, true, false, true},
    Row{DType::kU4, "uint4", 4, false, true, false},
    Row{DType::kI4, "int4", 4, false, true, true},
    Row{DType::kF4E2M1, "float4_e2m1fn", 4, true, false, true},
    Row{DType::kF8E8M0, "float8_e8m0fnu", 8, true, false, false},
    Row{DType::kU2, "uint2", 2, false, true, false},
    Row{DType::kI2, "int2", 2, false, true, true},
};

// Rows stand in the order of DType's values, which start at 1.
constexpr bool RowsInOrder() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].type) != i + 1) return false;
  }
  return true;
}
static_assert(RowsInOrder());

const Row* Find(DType t) {
  const auto i = static_cast<size_t>(static_cast<int32_t>(t));
  return i >= 1 && i <= kRows.size() ? &kRows[i - 1] : nullptr;
}

}  // namespace

std::string_view DTypeName(DType t) {
  const Row* r = Find(t);
  return r != nullptr ? r->name : "undefined";
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name == name) return r.type;
  }
  return std::nullopt;
}

bool IsValidDType(int32_t raw) {
  return raw >= 1 && static_cast<size_t>(raw) <= kRows.size();
}

int DTypeBits(DType t) {
  const Row* r = Find(t);
  return r != nullptr ? r->bits : 0;
}

size_t DTypeBytes(DType t, int64_t count) {
  if (t == DType::kString) return static_cast<size_t>(count) * sizeof(std::string);
  return (static_cast<size_t>(count) * static_cast<size_t>(DTypeBits(t)) + 7) / 8;
}

bool IsFloat(DType t) {
  const Row* r = Find(t);
  return r != nullptr && r->is_float;
}

bool IsInteger(DType t) {
  const Row* r = Find(t);
  return r != nullptr && r->is_integer;
}

bool IsSigned(DType t) {
  const Row* r = Find(t);
  return r != nullptr && r->is_signed;
}

}  // namespace tenon
