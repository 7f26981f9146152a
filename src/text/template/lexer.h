// Jinja source to tokens, with the white space rules that chat templates are written for: trim_blocks and lstrip_blocks.
#ifndef TENON_TEXT_TEMPLATE_LEXER_H_
#define TENON_TEXT_TEMPLATE_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

namespace tenon::text {

struct Token {
  enum class Kind : uint8_t {
    kText,
    kPrintBegin,
    kPrintEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;   ///< of names, operators and numbers as written; of strings and text their value
  int line = 1;
};

/// Throws TemplateError.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace tenon::text

#endif  // TENON_TEXT_TEMPLATE_LEXER_H_
