// The lexer of jinja2/lexer.py, for the default delimiters.
#include "text/template/lexer.h"

#include <algorithm>

#include "text/template/value.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

bool IsBlank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string source) : s_(std::move(source)) {}

  std::vector<Token> Run() {
    while (at_ < s_.size()) Root();
    Put(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Fail(const std::string& message) const { throw TemplateError{message, line_}; }
  void Put(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  bool Starts(std::string_view what) const { return std::string_view(s_).substr(at_).starts_with(what); }
  void Advance(size_t n) {
    line_ += static_cast<int>(
        std::count(s_.begin() + static_cast<std::ptrdiff_t>(at_), s_.begin() + static_cast<std::ptrdiff_t>(at_ + n), '\n'));
    at_ += n;
    line_starting_ = at_ > 0 && s_[at_ - 1] == '\n';
  }
  void SkipBlanks() {
    size_t n = 0;
    while (at_ + n < s_.size() && IsBlank(s_[at_ + n])) ++n;
    Advance(n);
  }

  // Text up to the next opening delimiter, then what the delimiter opens.
  void Root() {
    size_t open = at_;
    while (true) {
      open = s_.find('{', open);
      if (open == std::string::npos || open + 1 >= s_.size()) {
        Text(s_.substr(at_));
        Advance(s_.size() - at_);
        return;
      }
      if (s_[open + 1] == '{' || s_[open + 1] == '%' || s_[open + 1] == '#') break;
      ++open;
    }
    std::string text = s_.substr(at_, open - at_);
    const char kind = s_[open + 1];
    const char sign = open + 2 < s_.size() ? s_[open + 2] : '\0';
    if (sign == '-') {
      while (!text.empty() && IsBlank(text.back())) text.pop_back();
    } else if (sign != '+' && kind != '{') {
      const size_t line = text.rfind('\n') + 1;   // 0 when there is none
      const bool starts = line > 0 || line_starting_;
      if (starts && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(line), text.end(), IsBlank)) text.resize(line);
    }
    Text(std::move(text));
    Advance(open - at_ + 2);
    if (sign == '-' || (sign == '+' && kind != '{')) Advance(1);
    if (kind == '#') return Comment();
    if (kind == '%' && Raw()) return;
    Put(kind == '%' ? Token::Kind::kBlockBegin : Token::Kind::kPrintBegin, "");
    Expression(kind == '%');
  }

  void Text(std::string text) {
    if (!text.empty()) Put(Token::Kind::kText, std::move(text));
  }

  // What follows the end of a block or comment; `at_` is at the sign or the delimiter.
  void AfterBlock(char sign) {
    if (sign == '-') {
      SkipBlanks();
    } else if (sign != '+' && at_ < s_.size() && s_[at_] == '\n') {
      Advance(1);
    }
  }

  void Comment() {
    const size_t end = s_.find("#}", at_);
    if (end == std::string::npos) Fail("a comment without end");
    const char sign = end > at_ && (s_[end - 1] == '-' || s_[end - 1] == '+') ? s_[end - 1] : '\0';
    Advance(end + 2 - at_);
    AfterBlock(sign);
  }

  // {% raw %} ... {% endraw %}; false: another block.
  bool Raw() {
    size_t p = at_;
    const auto blanks = [&] {
      while (p < s_.size() && IsBlank(s_[p])) ++p;
    };
    blanks();
    if (s_.compare(p, 3, "raw") != 0) return false;
    p += 3;
    blanks();
    const bool minus = p < s_.size() && s_[p] == '-';
    p += minus;
    if (s_.compare(p, 2, "%}") != 0) return false;
    Advance(p + 2 - at_);
    if (minus) SkipBlanks();
    for (size_t open = s_.find("{%", at_); open != std::string::npos; open = s_.find("{%", open + 2)) {
      p = open + 2;
      const char sign = p < s_.size() ? s_[p] : '\0';
      if (sign == '-' || sign == '+') ++p;
      blanks();
      if (s_.compare(p, 6, "endraw") != 0) continue;
      p += 6;
      blanks();
      const char close = p < s_.size() && (s_[p] == '-' || s_[p] == '+') ? s_[p] : '\0';
      p += close != '\0';
      if (s_.compare(p, 2, "%}") != 0) continue;
      std::string text = s_.substr(at_, open - at_);
      if (sign == '-') {
        while (!text.empty() && IsBlank(text.back())) text.pop_back();
      } else if (sign != '+') {
        const size_t line = text.rfind('\n') + 1;
        if (line > 0 && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(line), text.end(), IsBlank)) text.resize(line);
      }
      Text(std::move(text));
      Advance(p + 2 - at_);
      AfterBlock(close);
      return true;
    }
    Fail("a raw block without endraw");
  }

  void Expression(bool block) {
    const std::string_view close = block ? "%}" : "}}";
    int depth = 0;
    while (true) {
      SkipBlanks();
      if (at_ >= s_.size()) Fail(block ? "a block without %}" : "an expression without }}");
      const char c = s_[at_];
      if (depth == 0) {
        const bool sign = (c == '-' || (block && c == '+')) && std::string_view(s_).substr(at_ + 1).starts_with(close);
        if (sign || Starts(close)) {
          Put(block ? Token::Kind::kBlockEnd : Token::Kind::kPrintEnd, "");
          Advance(close.size() + sign);
          if (block) {
            AfterBlock(sign ? c : '\0');
          } else if (sign) {
            SkipBlanks();
          }
          return;
        }
      }
      One(&depth);
    }
  }

  void One(int* depth) {
    const char c = s_[at_];
    if (IsNameStart(c)) {
      size_t n = 1;
      while (at_ + n < s_.size() && (IsNameStart(s_[at_ + n]) || IsDigit(s_[at_ + n]))) ++n;
      Put(Token::Kind::kName, s_.substr(at_, n));
      return Advance(n);
    }
    if (IsDigit(c)) return Number();
    if (c == '"' || c == '\'') return String(c);
    for (std::string_view op : {"//", "**", "==", "!=", "<=", ">="}) {
      if (Starts(op)) {
        Put(Token::Kind::kOperator, std::string(op));
        return Advance(op.size());
      }
    }
    if (std::string_view("+-*/%~<>=.,:|()[]{}").find(c) == std::string_view::npos)
      Fail(std::string("unexpected character '") + c + "'");
    if (c == '(' || c == '[' || c == '{') ++*depth;
    if (c == ')' || c == ']' || c == '}') {
      if (--*depth < 0) Fail(std::string("unexpected '") + c + "'");
    }
    Put(Token::Kind::kOperator, std::string(1, c));
    Advance(1);
  }

  void Number() {
    size_t n = 0;
    bool real = false;
    const auto digits = [&] {
      while (at_ + n < s_.size() && (IsDigit(s_[at_ + n]) || s_[at_ + n] == '_')) ++n;
    };
    digits();
    if (at_ + n + 1 < s_.size() && s_[at_ + n] == '.' && IsDigit(s_[at_ + n + 1])) {
      real = true;
      ++n;
      digits();
    }
    size_t e = at_ + n;
    if (e < s_.size() && (s_[e] == 'e' || s_[e] == 'E')) {
      const size_t sign = e + 1 < s_.size() && (s_[e + 1] == '+' || s_[e + 1] == '-');
      if (e + 1 + sign < s_.size() && IsDigit(s_[e + 1 + sign])) {
        real = true;
        n += 1 + sign;
        digits();
      }
    }
    std::string text = s_.substr(at_, n);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    Put(real ? Token::Kind::kFloat : Token::Kind::kInteger, std::move(text));
    Advance(n);
  }

  void String(char quote) {
    std::string value;
    size_t p = at_ + 1;
    for (; p < s_.size() && s_[p] != quote; ++p) {
      if (s_[p] != '\\' || p + 1 >= s_.size()) {
        value += s_[p];
        continue;
      }
      Escape(s_[++p], &p, &value);
    }
    if (p >= s_.size()) Fail("a string without end");
    Put(Token::Kind::kString, std::move(value));
    Advance(p + 1 - at_);
  }

  // The escape that begins with `c` at *p, which moves to its last character.
  void Escape(char c, size_t* p, std::string* value) const {
    static constexpr std::string_view kFrom = "ntrabfv0\\'\"";
    static constexpr std::string_view kTo("\n\t\r\a\b\f\v\0\\'\"", 11);
    const size_t known = kFrom.find(c);
    const size_t hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (hex > 0) {
      if (*p + hex >= s_.size()) Fail("an escape without its digits");
      char32_t v = 0;
      for (size_t i = 1; i <= hex; ++i) {
        const char d = s_[*p + i];
        const int digit = IsDigit(d) ? d - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10 : d >= 'A' && d <= 'F' ? d - 'A' + 10 : -1;
        if (digit < 0) Fail("an escape with wrong digits");
        v = v * 16 + static_cast<char32_t>(digit);
      }
      if (v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) Fail("an escape that is no character");
      AppendUtf8(v, value);
      *p += hex;
    } else if (c == '\n') {
      return;
    } else if (known != std::string_view::npos) {
      *value += kTo[known];
    } else {
      *value += '\\';
      *value += c;
    }
  }

  std::string s_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) {
  std::string s;
  for (size_t i = 0; i < source.size(); ++i) {   // one kind of line end
    if (source[i] == '\r') {
      s += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      s += source[i];
    }
  }
  if (s.ends_with('\n')) s.pop_back();
  return Lexer(std::move(s)).Run();
}

}  // namespace tenon::text
