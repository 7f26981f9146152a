// Regular expressions as tokenizer files write them, run by PCRE2.
#ifndef TENON_TEXT_PATTERN_H_
#define TENON_TEXT_PATTERN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon::text {

class Pattern {
 public:
  /// kBadInput: no regular expression. White space means Unicode's White_Space.
  static Result<Pattern> Compile(const std::string& text);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  /// Working memory of a search; one a thread.
  class Search {
   public:
    explicit Search(const Pattern& pattern);
    ~Search();
    Search(const Search&) = delete;
    /// The next match in valid UTF-8 `text` at or after `from`. False: none (or the search went past its bounds).
    bool Next(std::string_view text, size_t from, size_t* begin, size_t* end);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  explicit Pattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace tenon::text

#endif  // TENON_TEXT_PATTERN_H_
