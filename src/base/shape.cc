#include "base/shape.h"

#include <fmt/ranges.h>

namespace tenon {

std::string Shape::ToString() const {
  if (rank_ == 0) return "scalar";
  return fmt::format("{}", fmt::join(begin(), end(), "x"));
}

std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

Result<Shape> CheckedShape(std::span<const int64_t> dims) {
  constexpr int64_t kMaxElements = int64_t{1} << 48;
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return Unsupported("rank {} is over the limit of {}", dims.size(), kMaxRank);
  }
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d < 0) return BadInput("negative dimension {} in shape [{}]", d, fmt::join(dims, ","));
    if (d == 0) continue;
    const auto next = CheckedMul(n, d);
    if (!next || *next > kMaxElements) {
      return ResourceLimit("shape [{}] has more than 2^48 elements", fmt::join(dims, ","));
    }
    n = *next;
  }
  return Shape(dims);
}

}  // namespace tenon
