// Concrete shapes: a fixed-capacity list of extents that never allocates.
#ifndef TENON_BASE_SHAPE_H_
#define TENON_BASE_SHAPE_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"

namespace tenon {

/// Largest rank Tenon accepts; importers refuse more with the node named.
inline constexpr int kMaxRank = 12;

/// Extents in row-major order, outermost first. Every extent >= 0. Rank 0 is a scalar with one element.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    CHECK(rank_ <= kMaxRank);
    for (int i = 0; i < rank_; ++i) dims_[i] = dims[i];
  }
  static Shape OfRank(int rank, int64_t fill = 1) {
    Shape s;
    CHECK(rank >= 0 && rank <= kMaxRank);
    s.rank_ = rank;
    for (int i = 0; i < rank; ++i) s.dims_[i] = fill;
    return s;
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  /// Negative `i` counts from the end, as ONNX axes do.
  int64_t dim(int i) const { return dims_[i < 0 ? i + rank_ : i]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }

  void push_back(int64_t d) {
    CHECK(rank_ < kMaxRank);
    dims_[rank_++] = d;
  }

  /// Product of all extents. The caller has made sure that it fits (CheckedNumElements for outside input).
  int64_t num_elements() const { return Product(0, rank_); }
  /// Product of extents [from, to).
  int64_t Product(int from, int to) const {
    int64_t n = 1;
    for (int i = from; i < to; ++i) n *= dims_[i];
    return n;
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a.dims_[i] != b.dims_[i]) return false;
    }
    return true;
  }

  /// "1x3x224x224"; "scalar" for rank 0.
  std::string ToString() const;

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_{};
};

/// a*b or a+b, or nothing when the result does not fit int64.
std::optional<int64_t> CheckedMul(int64_t a, int64_t b);
std::optional<int64_t> CheckedAdd(int64_t a, int64_t b);

/// Number of elements of dims from outside: refuses negative extents, ranks over kMaxRank and products over 2^48.
Result<Shape> CheckedShape(std::span<const int64_t> dims);

}  // namespace tenon

#endif  // TENON_BASE_SHAPE_H_
