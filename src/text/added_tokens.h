// Finding added tokens in text: the leftmost match, and of those the longest.
#ifndef TENON_TEXT_ADDED_TOKENS_H_
#define TENON_TEXT_ADDED_TOKENS_H_

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"

namespace tenon::text {

class AddedTokens {
 public:
  /// A stretch of text: an added token (id >= 0) or text between.
  struct Part {
    int32_t id = -1;
    size_t begin = 0;
    size_t end = 0;
  };
  /// `texts[i]`: what is looked for in place of tokens[i].text. The tokens are copied.
  void Build(const std::vector<AddedToken>& tokens, const std::vector<std::string>& texts);
  bool empty() const { return tokens_.empty(); }
  /// Appends the parts of `text`. `trusted`: null, or one byte per byte of text; a special token needs all of its bytes nonzero.
  /// `special`: whether special tokens are looked for at all.
  void Split(std::string_view text, const char* trusted, bool special, std::vector<Part>* parts) const;

 private:
  struct Token {
    AddedToken token;
    std::string text;
  };
  const Token* MatchAt(std::string_view text, size_t at, const char* trusted, bool special) const;
  std::vector<Token> tokens_;  // by first byte, longest first
  std::vector<uint32_t> first_[2];  // begin and end in tokens_ by first byte
};

}  // namespace tenon::text

#endif  // TENON_TEXT_ADDED_TOKENS_H_
