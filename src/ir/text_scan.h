// The characters of a text graph: words, quoted strings, numbers, with the line number for messages.
#ifndef TENON_IR_TEXT_SCAN_H_
#define TENON_IR_TEXT_SCAN_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon::ir {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// Skips blanks and comments; true when `token` comes next, which is then consumed.
  bool Eat(std::string_view token);
  /// The same without consuming.
  bool Peek(std::string_view token);
  bool AtEnd();
  Status Expect(std::string_view token);

  /// A plain word (letters, digits, '_', '.', '/') or a quoted string. `quoted` tells which (may be null).
  Result<std::string> Name(bool* quoted = nullptr);
  /// A quoted string.
  Result<std::string> String();
  /// The characters of a number or of nan, inf, -inf.
  Result<std::string_view> Number();
  bool PeekString() { return Peek("\""); }
  /// Characters up to a ',' or ']' outside parentheses.
  Result<std::string_view> Extent();

  /// kBadInput with the current line.
  template <typename... Args>
  Status Fail(fmt::format_string<Args...> f, Args&&... args) const {
    return BadInput("line {}: {}", line_, fmt::format(f, std::forward<Args>(args)...));
  }
  int line() const { return line_; }

 private:
  void SkipBlanks();
  std::string Next() const;  ///< what stands here, for messages

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace tenon::ir

#endif  // TENON_IR_TEXT_SCAN_H_
