#include "ir/text_scan.h"

#include <charconv>

namespace tenon::ir {
namespace {

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '/';
}

}  // namespace

void Scanner::SkipBlanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      if (c == '\n') ++line_;
      ++at_;
    } else {
      return;
    }
  }
}

std::string Scanner::Next() const {
  if (at_ >= text_.size()) return "the end of the text";
  std::string_view rest = text_.substr(at_, 20);
  return "'" + std::string(rest.substr(0, rest.find('\n'))) + "'";
}

bool Scanner::Peek(std::string_view token) {
  SkipBlanks();
  return text_.substr(at_, token.size()) == token;
}

bool Scanner::Eat(std::string_view token) {
  if (!Peek(token)) return false;
  at_ += token.size();
  return true;
}

bool Scanner::AtEnd() {
  SkipBlanks();
  return at_ >= text_.size();
}

Status Scanner::Expect(std::string_view token) {
  if (Eat(token)) return Status::Ok();
  return Fail("expected '{}', found {}", token, Next());
}

Result<std::string> Scanner::Name(bool* quoted) {
  const bool is_string = PeekString();
  if (quoted != nullptr) *quoted = is_string;
  if (is_string) return String();
  const size_t begin = at_;
  while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
  if (begin == at_) return Fail("expected a name, found {}", Next());
  return std::string(text_.substr(begin, at_ - begin));
}

Result<std::string> Scanner::String() {
  TENON_RETURN_IF_ERROR(Expect("\""));
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\n') return Fail("a string does not end on its line");
    if (c == '\\') {
      if (at_ >= text_.size()) break;
      c = text_[at_++];
      if (c == 'n') {
        c = '\n';
      } else if (c == 'u') {
        unsigned code = 0;
        const std::string_view digits = text_.substr(at_, 4);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
        if (error != std::errc() || end != digits.data() + 4 || code > 0x7f) return Fail("bad escape in a string");
        at_ += 4;
        c = static_cast<char>(code);
      } else if (c != '"' && c != '\\') {
        return Fail("unknown escape '\\{}' in a string", c);
      }
    }
    out += c;
  }
  if (at_ >= text_.size()) return Fail("a string does not end");
  ++at_;
  return out;
}

Result<std::string_view> Scanner::Number() {
  SkipBlanks();
  const size_t begin = at_;
  while (at_ < text_.size() && (IsWordChar(text_[at_]) || text_[at_] == '-' || text_[at_] == '+')) ++at_;
  if (begin == at_) return Fail("expected a number, found {}", Next());
  return text_.substr(begin, at_ - begin);
}

Result<std::string_view> Scanner::Extent() {
  SkipBlanks();
  const size_t begin = at_;
  int level = 0;
  for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
    const char c = text_[at_];
    if (level == 0 && (c == ',' || c == ']')) break;
    if (c == '(') ++level;
    if (c == ')') --level;
  }
  if (begin == at_) return Fail("expected an extent, found {}", Next());
  return text_.substr(begin, at_ - begin);
}

}  // namespace tenon::ir
