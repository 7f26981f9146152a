// Symbolic dimensions: integers, named symbols, and polynomials over them such as 2*n+1 or n*m.
// What a polynomial cannot say (floor division, max, ...) becomes an atom whose name is its canonical text, "floor((n+1)/2)",
// so that equal expressions compare equal and print readably.
#ifndef TENON_BASE_DIM_H_
#define TENON_BASE_DIM_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/shape.h"

namespace tenon {

class Dim {
 public:
  Dim() = default;                                   ///< 0
  Dim(int64_t value) : constant_(value) {}           // NOLINT(google-explicit-constructor)
  static Dim Symbol(std::string name);               ///< a named symbol, or an atom with its canonical text
  static Dim Unknown();                              ///< equal to nothing, not even itself

  /// Reads what ToString writes: Parse(d.ToString()) == d for every d with plain symbol names. kBadInput otherwise.
  static Result<Dim> Parse(std::string_view text);

  bool is_unknown() const { return unknown_; }
  bool is_const() const { return !unknown_ && terms_.empty(); }
  /// The number; only when is_const().
  int64_t value() const { return constant_; }
  bool Is(int64_t v) const { return is_const() && constant_ == v; }
  /// The symbol's name when the expression is one symbol or atom alone, else nullopt.
  std::optional<std::string> symbol() const;

  /// "3", "n", "2*n+1", "?".
  std::string ToString() const;

  friend bool operator==(const Dim& a, const Dim& b);
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);

  /// Floor and ceiling division. Exact division (4*n by 2) stays a polynomial.
  static Dim FloorDiv(const Dim& a, const Dim& b);
  static Dim CeilDiv(const Dim& a, const Dim& b);
  /// a/b when b divides every coefficient (or a == b*k for a term-wise quotient); nullopt otherwise.
  static std::optional<Dim> ExactDiv(const Dim& a, const Dim& b);
  static Dim Max(const Dim& a, const Dim& b);
  static Dim Min(const Dim& a, const Dim& b);
  /// The output extent of broadcasting a with b; nullopt when both are numbers that do not broadcast.
  /// Of two unequal expressions neither of which is 1, a number other than 1 wins; otherwise the result is unknown.
  static std::optional<Dim> Broadcast(const Dim& a, const Dim& b);

 private:
  using Monomial = std::vector<std::string>;  // sorted atom names, repeated for powers
  void AddTerm(const Monomial& m, int64_t coefficient);

  int64_t constant_ = 0;
  bool unknown_ = false;
  std::vector<std::pair<Monomial, int64_t>> terms_;  // sorted by monomial, no zero coefficients
};

/// A shape whose rank may be unknown and whose extents are Dims.
class SymShape {
 public:
  SymShape() = default;  ///< unknown rank
  explicit SymShape(std::vector<Dim> dims) : has_rank_(true), dims_(std::move(dims)) {}
  SymShape(const Shape& s) : has_rank_(true), dims_(s.begin(), s.end()) {}  // NOLINT(google-explicit-constructor)
  static SymShape OfRank(int rank) { return SymShape(std::vector<Dim>(static_cast<size_t>(rank), Dim::Unknown())); }

  bool has_rank() const { return has_rank_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  const Dim& operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  Dim& operator[](int i) { return dims_[static_cast<size_t>(i)]; }
  const std::vector<Dim>& dims() const { return dims_; }
  std::vector<Dim>& dims() { return dims_; }

  bool is_const() const;
  /// The concrete shape when every extent is a number.
  std::optional<Shape> ToShape() const;
  Dim NumElements() const;  ///< unknown when the rank or an extent is
  /// "[n,3,2*h]"; "[...]" for unknown rank.
  std::string ToString() const;

  friend bool operator==(const SymShape& a, const SymShape& b) { return a.has_rank_ == b.has_rank_ && a.dims_ == b.dims_; }

 private:
  bool has_rank_ = false;
  std::vector<Dim> dims_;
};

}  // namespace tenon

#endif  // TENON_BASE_DIM_H_
