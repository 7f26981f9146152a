// PCRE2 for the operators of this family that take regular expressions in RE2's syntax.
#ifndef TENON_KERNELS_STRINGS_PCRE_H_
#define TENON_KERNELS_STRINGS_PCRE_H_

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace tenon::kernels::strings {

/// Steps of backtracking for one match: RE2 never needs more than a small multiple of the length.
inline constexpr uint32_t kMatchLimit = 10'000'000;

struct FreePcre {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};

class Pattern {
 public:
  /// `whole`: only matches of the whole text count. kBadInput names `what` when the pattern is wrong.
  static Result<Pattern> Compile(const std::string& pattern, bool whole, const char* what) {
    // Dollar means the very end, as in RE2.
    const uint32_t options =
        PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C | (whole ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0u);
    int error = 0;
    PCRE2_SIZE offset = 0;
    Pattern p;
    p.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &offset, nullptr));
    if (p.code_ != nullptr) return p;
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(error, text, sizeof(text));
    return BadInput("{}: pattern '{}' is wrong at offset {}: {}", what, pattern, offset, reinterpret_cast<const char*>(text));
  }
  const pcre2_code* code() const { return code_.get(); }

 private:
  std::unique_ptr<pcre2_code, FreePcre> code_;
};

/// What one run needs to match patterns; not to be shared by threads.
class Matcher {
 public:
  explicit Matcher(const Pattern& pattern)
      : code_(pattern.code()),
        data_(pcre2_match_data_create_from_pattern(code_, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    if (ok()) pcre2_set_match_limit(context_.get(), kMatchLimit);
  }
  bool ok() const { return data_ != nullptr && context_ != nullptr; }

  /// True with begin() and end() set when there is a match at or after `from`; text that is no UTF-8 has none. kResourceLimit
  /// when the pattern needs too much backtracking.
  Result<bool> Find(const std::string& text, size_t from) {
    const int rc =
        pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, 0, data_.get(), context_.get());
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT) {
      return ResourceLimit("the pattern needs too much backtracking");
    }
    return rc >= 0;
  }
  size_t begin() const { return pcre2_get_ovector_pointer(data_.get())[0]; }
  size_t end() const { return pcre2_get_ovector_pointer(data_.get())[1]; }

 private:
  const pcre2_code* code_;
  std::unique_ptr<pcre2_match_data, FreePcre> data_;
  std::unique_ptr<pcre2_match_context, FreePcre> context_;
};

}  // namespace tenon::kernels::strings

#endif  // TENON_KERNELS_STRINGS_PCRE_H_
