#include "server/datatype.h"

#include <array>
#include <cstring>
#include <utility>

namespace tenon::server {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 14> kNames = {{{DType::kBool, "BOOL"},
                                                                        {DType::kU8, "UINT8"},
                                                                        {DType::kU16, "UINT16"},
                                                                        {DType::kU32, "UINT32"},
                                                                        {DType::kU64, "UINT64"},
                                                                        {DType::kI8, "INT8"},
                                                                        {DType::kI16, "INT16"},
                                                                        {DType::kI32, "INT32"},
                                                                        {DType::kI64, "INT64"},
                                                                        {DType::kF16, "FP16"},
                                                                        {DType::kF32, "FP32"},
                                                                        {DType::kF64, "FP64"},
                                                                        {DType::kString, "BYTES"},
                                                                        {DType::kBF16, "BF16"}}};

}  // namespace

std::string_view DatatypeName(DType type) {
  for (const auto& [t, name] : kNames) {
    if (t == type) return name;
  }
  return "INVALID";
}

std::optional<DType> DatatypeFromName(std::string_view name) {
  for (const auto& [t, n] : kNames) {
    if (n == name) return t;
  }
  return std::nullopt;
}

Result<int64_t> ElementsOf(const std::vector<int64_t>& shape, const std::string& what) {
  constexpr size_t kMaxRank = 8;
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  if (shape.size() > kMaxRank) return Usage("{}; {} dimensions given; at most {} are allowed", what, shape.size(), kMaxRank);
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent < 0) return Usage("{}; extent {} given; extents must be >= 0", what, extent);
    if (__builtin_mul_overflow(count, extent, &count) || count > kMaxElements) {
      return Usage("{}; the shape has more than {} elements", what, kMaxElements);
    }
  }
  return count;
}

}  // namespace tenon::server
