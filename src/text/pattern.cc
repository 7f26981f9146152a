// PCRE2 behind Pattern.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include <pcre2.h>

namespace tenon::text {
namespace {

constexpr size_t kMaxPattern = 64 * 1024;
constexpr std::string_view kSpaces =
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";

// PCRE2's \s holds U+180E, which is white space no more: \s and \S are written out.
std::string SpellOutSpaces(const std::string& text) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      const char next = text[++i];
      if (next == 's') {
        out += in_class ? std::string(kSpaces) : "[" + std::string(kSpaces) + "]";
      } else if (next == 'S' && !in_class) {
        out += "[^" + std::string(kSpaces) + "]";
      } else {
        out += {c, next};
      }
      continue;
    }
    if (c == '[' && !in_class) {
      in_class = true;
    } else if (c == ']') {
      in_class = false;
    }
    out += c;
  }
  return out;
}

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Pattern::Pattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Result<Pattern> Pattern::Compile(const std::string& text) {
  if (text.size() > kMaxPattern) return ResourceLimit("a regular expression of {} bytes; at most {}", text.size(), kMaxPattern);
  const std::string spelled = SpellOutSpaces(text);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code->code == nullptr) {
    char message[160] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof(message));
    return BadInput("the tokenizer's regular expression '{}' is wrong: {}", text, message);
  }
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);   // without it, matching interprets
  return Pattern(std::move(code));
}

struct Pattern::Search::State {
  const pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  ~State() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Pattern::Search::Search(const Pattern& pattern) : state_(std::make_unique<State>()) {
  state_->code = pattern.code_->code;
  state_->match = pcre2_match_data_create(1, nullptr);
  CHECK(state_->match != nullptr);
}

Pattern::Search::~Search() = default;

bool Pattern::Search::Next(std::string_view text, size_t from, size_t* begin, size_t* end) {
  const auto run = [&] {
    return pcre2_match(state_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, PCRE2_NO_UTF_CHECK,
                       state_->match, state_->context);
  };
  int result = run();
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && state_->stack == nullptr) {
    constexpr size_t kMaxStack = size_t{8} << 20;
    state_->stack = pcre2_jit_stack_create(64 * 1024, kMaxStack, nullptr);
    state_->context = pcre2_match_context_create(nullptr);
    pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
    result = run();
  }
  if (result < 0) return false;
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(state_->match);
  *begin = span[0];
  *end = span[1];
  return span[0] <= span[1];
}

}  // namespace tenon::text
