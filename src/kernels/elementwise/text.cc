#include "kernels/elementwise/text.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

namespace tenon::kernels::elementwise {
namespace {

std::string_view Trim(std::string_view s) {
  const auto first = s.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\r\n") - first + 1);
}

Status NoNumber(const std::string& text, DType to) {
  // A long text is cut: it may come from outside.
  return BadInput("Cast: \"{}\" is no number; a {} needs plain or scientific notation, INF or NaN", text.substr(0, 64),
                  DTypeName(to));
}

bool ParseReal(std::string_view s, double* value) {
  if (s.starts_with('+')) s.remove_prefix(1);
  if (s.empty() || s.front() == '+') return false;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *value);
  if (end != s.data() + s.size()) return false;
  if (error == std::errc::result_out_of_range) {
    // from_chars leaves the value alone; the exponent's sign says which side was left.
    const auto e = s.find_first_of("eE");
    const bool tiny = e != std::string_view::npos ? s.substr(e + 1).starts_with('-') : s.find_first_of("123456789") > s.find('.');
    *value = std::copysign(tiny ? 0.0 : std::numeric_limits<double>::infinity(), s.front() == '-' ? -1.0 : 1.0);
    return true;
  }
  return error == std::errc();
}

template <typename T>
bool ParseInteger(std::string_view s, T* value) {
  if (s.starts_with('+') && s.size() > 1 && s[1] != '-') s.remove_prefix(1);
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *value);
  return error == std::errc() && end == s.data() + s.size();
}

template <typename T>
std::string Shortest(T v) {
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), v);
  std::string s(buffer, result.ptr);
  if (s.find_first_not_of("-0123456789") == std::string::npos) s += ".0";
  return s;
}

}  // namespace

Status ParseNumber(const std::string& text, DType to, Word* out) {
  const std::string_view s = Trim(text);
  const Kind kind = KindOf(to);
  if (to == DType::kBool) {
    if (s == "True" || s == "true" || s == "False" || s == "false") {
      out->u = s.size() == 4 ? 1 : 0;
      return Status::Ok();
    }
  }
  // Whole numbers first: a double cannot hold all of 64 bits.
  if (kind == Kind::kSigned && DTypeBits(to) == 64 && ParseInteger(s, &out->i)) return Status::Ok();
  if (kind == Kind::kUnsigned && DTypeBits(to) == 64 && ParseInteger(s, &out->u)) return Status::Ok();
  double value = 0;
  if (!ParseReal(s, &value)) return NoNumber(text, to);
  if (to == DType::kF32) {
    // Straight to float, so that there is one rounding.
    float narrow = 0;
    const std::string_view digits = s.starts_with('+') ? s.substr(1) : s;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), narrow);
    if (error == std::errc() && end == digits.data() + digits.size()) value = narrow;
  }
  out->f = value;
  ConvertKind(Kind::kReal, to, 1, out);
  return Status::Ok();
}

std::string FormatNumber(DType from, const Word& value) {
  if (from == DType::kBool) return value.u != 0 ? "True" : "False";
  switch (KindOf(from)) {
    case Kind::kSigned: return std::to_string(value.i);
    case Kind::kUnsigned: return std::to_string(value.u);
    default: break;
  }
  if (std::isnan(value.f)) return "nan";
  if (std::isinf(value.f)) return value.f > 0 ? "inf" : "-inf";
  if (from == DType::kF64) return Shortest(value.f);
  if (from == DType::kF16) {
    // The fewest digits that read back as the same half.
    for (int digits = 1; digits <= 5; ++digits) {
      char buffer[64];
      const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value.f, std::chars_format::general, digits);
      double back = 0;
      std::from_chars(buffer, result.ptr, back);
      if (Half(static_cast<float>(back)) != Half(static_cast<float>(value.f))) continue;
      std::string s(buffer, result.ptr);
      if (s.find_first_not_of("-0123456789") == std::string::npos) s += ".0";
      return s;
    }
  }
  return Shortest(static_cast<float>(value.f));
}

}  // namespace tenon::kernels::elementwise
