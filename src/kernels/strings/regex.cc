// RegexFullMatch.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "kernels/strings/internal.h"

namespace tenon::kernels::strings {
namespace {

// Steps of backtracking for one string: RE2, whose syntax this is, never needs more than a small multiple of the length.
constexpr uint32_t kMatchLimit = 10'000'000;

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
using Code = std::unique_ptr<pcre2_code, Free>;

Result<std::unique_ptr<pcre2_code, Free>> Compile(const Attrs& attrs) {
  const std::string pattern = attrs.String("pattern", "");
  // Dollar means the very end, as in RE2.
  const uint32_t options = PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C;
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &offset, nullptr));
  if (code != nullptr) return code;
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof(text));
  return BadInput("RegexFullMatch: pattern '{}' is wrong at offset {}: {}", pattern, offset, reinterpret_cast<const char*>(text));
}

class RegexKernel final : public Kernel {
 public:
  explicit RegexKernel(std::unique_ptr<pcre2_code, Free> code) : code_(std::move(code)) {}

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    TENON_RETURN_IF_ERROR(NeedStrings("RegexFullMatch", x.dtype));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, x.shape));
    const std::unique_ptr<pcre2_match_data, Free> data(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    const std::unique_ptr<pcre2_match_context, Free> context(pcre2_match_context_create(nullptr));
    if (data == nullptr || context == nullptr) return ResourceLimit("RegexFullMatch: no memory");
    pcre2_set_match_limit(context.get(), kMatchLimit);
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const std::string& s = x.Data<std::string>()[i];
      const int rc = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(s.data()), s.size(), 0, 0, data.get(), context.get());
      if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT) {
        return ResourceLimit("RegexFullMatch: the pattern needs too much backtracking for string {}", i);
      }
      args.out[0].Data<bool>()[i] = rc >= 0;  // what is no UTF-8 matches nothing
    }
    return Status::Ok();
  }

 private:
  std::unique_ptr<pcre2_code, Free> code_;
};

}  // namespace

Status InferRegexFullMatch(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(NeedStrings("RegexFullMatch", args.in[0].dtype));
  movement::SetTensor(&args.out[0], DType::kBool, args.in[0].shape);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeRegexFullMatch(const Problem& p) {
  auto code = Compile(p.attrs);
  if (!code.ok()) return std::move(code).TakeStatus();
  return std::unique_ptr<Kernel>(new RegexKernel(std::move(code).value()));
}

}  // namespace tenon::kernels::strings
