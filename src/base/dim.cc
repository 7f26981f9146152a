#include "base/dim.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenon {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

// Text of an expression as an operand: sums get parentheses.
std::string Operand(const Dim& d) {
  std::string s = d.ToString();
  return s.find_first_of("+-", 1) == std::string::npos || d.symbol() ? s : "(" + s + ")";
}

}  // namespace

Dim Dim::Symbol(std::string name) {
  Dim d;
  d.terms_.push_back({{std::move(name)}, 1});
  return d;
}

Dim Dim::Unknown() {
  Dim d;
  d.unknown_ = true;
  return d;
}

std::optional<std::string> Dim::symbol() const {
  if (unknown_ || constant_ != 0 || terms_.size() != 1 || terms_[0].second != 1 || terms_[0].first.size() != 1) {
    return std::nullopt;
  }
  return terms_[0].first[0];
}

std::string Dim::ToString() const {
  if (unknown_) return "?";
  std::string out;
  for (const auto& [atoms, coefficient] : terms_) {
    const std::string product = fmt::format("{}", fmt::join(atoms, "*"));
    if (!out.empty() && coefficient > 0) out += '+';
    if (coefficient == 1) {
      out += product;
    } else if (coefficient == -1) {
      out += "-" + product;
    } else {
      out += fmt::format("{}*{}", coefficient, product);
    }
  }
  if (out.empty()) return std::to_string(constant_);
  if (constant_ != 0) out += fmt::format("{:+}", constant_);
  return out;
}

void Dim::AddTerm(const Monomial& m, int64_t coefficient) {
  auto it = std::lower_bound(terms_.begin(), terms_.end(), m, [](const auto& t, const Monomial& key) { return t.first < key; });
  if (it != terms_.end() && it->first == m) {
    it->second += coefficient;
    if (it->second == 0) terms_.erase(it);
  } else if (coefficient != 0) {
    terms_.insert(it, {m, coefficient});
  }
}

bool operator==(const Dim& a, const Dim& b) {
  return !a.unknown_ && !b.unknown_ && a.constant_ == b.constant_ && a.terms_ == b.terms_;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.unknown_ || b.unknown_) return Dim::Unknown();
  const auto sum = CheckedAdd(a.constant_, b.constant_);
  if (!sum) return Dim::Unknown();
  Dim r = a;
  r.constant_ = *sum;
  for (const auto& [m, c] : b.terms_) r.AddTerm(m, c);
  return r;
}

Dim operator-(const Dim& a, const Dim& b) {
  return a + Dim(-1) * b;
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.Is(0) || b.Is(0)) return Dim(0);
  if (a.unknown_ || b.unknown_) return Dim::Unknown();
  const auto product = CheckedMul(a.constant_, b.constant_);
  if (!product) return Dim::Unknown();
  Dim r(*product);
  for (const auto& [ma, ca] : a.terms_) {
    if (b.constant_ != 0) r.AddTerm(ma, ca * b.constant_);
    for (const auto& [mb, cb] : b.terms_) {
      Dim::Monomial m = ma;
      m.insert(m.end(), mb.begin(), mb.end());
      std::sort(m.begin(), m.end());
      r.AddTerm(m, ca * cb);
    }
  }
  if (a.constant_ != 0) {
    for (const auto& [mb, cb] : b.terms_) r.AddTerm(mb, a.constant_ * cb);
  }
  return r;
}

std::optional<Dim> Dim::ExactDiv(const Dim& a, const Dim& b) {
  if (a.unknown_ || b.unknown_ || b.Is(0)) return std::nullopt;
  if (a == b) return Dim(1);
  // Divide term by term by a single-term divisor: c * atoms.
  if (!(b.terms_.empty() || (b.terms_.size() == 1 && b.constant_ == 0))) return std::nullopt;
  const int64_t coefficient = b.terms_.empty() ? b.constant_ : b.terms_[0].second;
  const Monomial atoms = b.terms_.empty() ? Monomial{} : b.terms_[0].first;
  if (coefficient == 0 || a.constant_ % coefficient != 0 || (!atoms.empty() && a.constant_ != 0)) return std::nullopt;
  Dim r(atoms.empty() ? a.constant_ / coefficient : 0);
  for (const auto& [m, c] : a.terms_) {
    if (c % coefficient != 0 || !std::includes(m.begin(), m.end(), atoms.begin(), atoms.end())) return std::nullopt;
    Monomial rest;
    std::set_difference(m.begin(), m.end(), atoms.begin(), atoms.end(), std::back_inserter(rest));
    if (rest.empty()) {
      r.constant_ += c / coefficient;
    } else {
      r.AddTerm(rest, c / coefficient);
    }
  }
  return r;
}

Dim Dim::FloorDiv(const Dim& a, const Dim& b) {
  if (a.unknown_ || b.unknown_ || b.Is(0)) return Unknown();
  if (a.is_const() && b.is_const()) return {FloorDivide(a.constant_, b.constant_)};
  if (auto exact = ExactDiv(a, b)) return *exact;
  return Symbol(fmt::format("floor({}/{})", Operand(a), Operand(b)));
}

Dim Dim::CeilDiv(const Dim& a, const Dim& b) {
  return Dim(0) - FloorDiv(Dim(0) - a, b);
}

Dim Dim::Max(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return {std::max(a.constant_, b.constant_)};
  if (a.unknown_ || b.unknown_) return Unknown();
  if (a == b) return a;
  const auto [x, y] = std::minmax({a.ToString(), b.ToString()});
  return Symbol(fmt::format("max({},{})", x, y));
}

Dim Dim::Min(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return {std::min(a.constant_, b.constant_)};
  if (a.unknown_ || b.unknown_) return Unknown();
  if (a == b) return a;
  const auto [x, y] = std::minmax({a.ToString(), b.ToString()});
  return Symbol(fmt::format("min({},{})", x, y));
}

namespace {

// Whether a is min(.., b): then a broadcasts with b only where it is b, or 1.
bool IsMinimumWith(const Dim& a, const Dim& b) {
  const auto atom = a.symbol();
  if (!atom || !atom->starts_with("min(") || b.is_unknown()) return false;
  const std::string operand = b.ToString();
  return atom->ends_with("," + operand + ")") || atom->starts_with("min(" + operand + ",");
}

}  // namespace

std::optional<Dim> Dim::Broadcast(const Dim& a, const Dim& b) {
  if (a.Is(1)) return b;
  if (b.Is(1) || a == b) return a;
  if (IsMinimumWith(a, b)) return b;
  if (IsMinimumWith(b, a)) return a;
  if (a.is_const() && b.is_const()) return std::nullopt;
  if (a.is_const()) return a;
  if (b.is_const()) return b;
  return Unknown();
}

bool SymShape::is_const() const {
  return has_rank_ && std::all_of(dims_.begin(), dims_.end(), [](const Dim& d) { return d.is_const(); });
}

std::optional<Shape> SymShape::ToShape() const {
  if (!is_const() || rank() > kMaxRank) return std::nullopt;
  Shape s;
  for (const Dim& d : dims_) s.push_back(d.value());
  return s;
}

Dim SymShape::NumElements() const {
  if (!has_rank_) return Dim::Unknown();
  Dim n(1);
  for (const Dim& d : dims_) n = n * d;
  return n;
}

std::string SymShape::ToString() const {
  if (!has_rank_) return "[...]";
  std::vector<std::string> parts;
  for (const Dim& d : dims_) parts.push_back(d.ToString());
  return fmt::format("[{}]", fmt::join(parts, ","));
}

}  // namespace tenon
