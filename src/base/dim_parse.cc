// Dim::Parse: a recursive-descent reader of the canonical text of dimensions.
//   sum     = ["-"] product { ("+"|"-") product }
//   product = factor { "*" factor }
//   factor  = integer | "?" | "(" sum ")" | name | "floor(" sum "/" sum ")" | "max(" sum "," sum ")" | "min(" sum "," sum ")"
// A name may hold dots, slashes and the like, as value names of exporters do; other calls become atoms with their text.
#include <charconv>

#include "base/dim.h"
#include "base/dim_value.h"

namespace tenon {
namespace {

constexpr int kMaxDepth = 32;

bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/' || c == '$' || c == '#' || (c & 0x80) != 0;
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsNamePart(char c) {
  return IsNameStart(c) || IsDigit(c) || c == '.' || c == ':' || c == '@' || c == ';';
}

using Values = std::map<std::string, int64_t, std::less<>>;

class DimReader {
 public:
  /// `values`: numbers to read in place of symbols; null: none.
  explicit DimReader(std::string_view text, const Values* values = nullptr) : text_(text), values_(values) {}

  Result<Dim> ReadAll() {
    TENON_ASSIGN_OR_RETURN(Dim d, ReadSum(base_depth_));
    if (at_ != text_.size()) return Fail();
    return d;
  }

 private:
  Status Fail() const {
    return BadInput("'{}' is not a dimension (at character {}); allowed are numbers, names, + - * floor( / )", text_, at_);
  }
  bool Eat(char c) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<Dim> ReadSum(int depth) {
    if (depth > kMaxDepth) return Fail();
    const bool negative = Eat('-');
    TENON_ASSIGN_OR_RETURN(Dim sum, ReadProduct(depth));
    if (negative) sum = Dim(0) - sum;
    while (true) {
      if (Eat('+')) {
        TENON_ASSIGN_OR_RETURN(Dim d, ReadProduct(depth));
        sum = sum + d;
      } else if (Eat('-')) {
        TENON_ASSIGN_OR_RETURN(Dim d, ReadProduct(depth));
        sum = sum - d;
      } else {
        return sum;
      }
    }
  }

  Result<Dim> ReadProduct(int depth) {
    TENON_ASSIGN_OR_RETURN(Dim product, ReadFactor(depth));
    while (Eat('*')) {
      TENON_ASSIGN_OR_RETURN(Dim d, ReadFactor(depth));
      product = product * d;
    }
    return product;
  }

  Result<Dim> ReadFactor(int depth) {
    if (Eat('(')) {
      TENON_ASSIGN_OR_RETURN(Dim d, ReadSum(depth + 1));
      if (!Eat(')')) return Fail();
      return d;
    }
    if (Eat('?')) return Dim::Unknown();
    if (at_ >= text_.size()) return Fail();
    if (IsDigit(text_[at_])) {
      int64_t value = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (error != std::errc()) return Fail();
      at_ = static_cast<size_t>(end - text_.data());
      return Dim(value);
    }
    if (!IsNameStart(text_[at_])) return Fail();
    const size_t begin = at_;
    while (at_ < text_.size() && IsNamePart(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (at_ >= text_.size() || text_[at_] != '(') return Named(name);
    return ReadCall(name, begin, depth);
  }

  Dim Named(std::string_view name) const {
    if (values_ != nullptr) {
      const auto it = values_->find(name);
      if (it != values_->end()) return Dim(it->second);
    }
    return Dim::Symbol(std::string(name));
  }

  // The arguments of `name(`: re-built through the functions of Dim, so that equal meanings get equal text.
  Result<Dim> ReadCall(std::string_view name, size_t begin, int depth) {
    const size_t open = at_;
    int level = 0;
    size_t split = std::string_view::npos;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '(') ++level;
      if (c == ')' && --level == 0) break;
      // Names may hold slashes, so the last one at the top level divides.
      if (level == 1 && (c == ',' || (c == '/' && name == "floor"))) split = at_;
    }
    if (at_ >= text_.size()) return Fail();
    const size_t close = at_++;
    if (split != std::string_view::npos && depth < kMaxDepth) {
      auto a = DimReader(text_.substr(open + 1, split - open - 1), depth + 1, values_).ReadAll();
      auto b = DimReader(text_.substr(split + 1, close - split - 1), depth + 1, values_).ReadAll();
      if (a.ok() && b.ok()) {
        if (name == "floor") return Dim::FloorDiv(*a, *b);
        if (name == "max") return Dim::Max(*a, *b);
        if (name == "min") return Dim::Min(*a, *b);
      }
    }
    return Dim::Symbol(std::string(text_.substr(begin, close + 1 - begin)));
  }

  DimReader(std::string_view text, int depth, const Values* values) : text_(text), values_(values), base_depth_(depth) {}

  std::string_view text_;
  const Values* values_;
  size_t at_ = 0;
  int base_depth_ = 0;
};

}  // namespace

Result<Dim> Dim::Parse(std::string_view text) {
  return DimReader(text).ReadAll();
}

std::optional<int64_t> DimValue(std::string_view text, const Values& values) {
  const auto dim = DimReader(text, &values).ReadAll();
  return dim.ok() && dim->is_const() ? std::optional(dim->value()) : std::nullopt;
}

std::optional<int64_t> FixedExtent(const std::string& dim) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), n);
  if (error != std::errc() || end != dim.data() + dim.size()) return std::nullopt;
  return n;
}

}  // namespace tenon
