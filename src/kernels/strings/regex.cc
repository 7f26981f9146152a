// RegexFullMatch.
#include "kernels/strings/internal.h"
#include "kernels/strings/pcre.h"

namespace tenon::kernels::strings {
namespace {

class RegexKernel final : public Kernel {
 public:
  explicit RegexKernel(Pattern pattern) : pattern_(std::move(pattern)) {}

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    TENON_RETURN_IF_ERROR(NeedStrings("RegexFullMatch", x.dtype));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, x.shape));
    Matcher matcher(pattern_);
    if (!matcher.ok()) return ResourceLimit("RegexFullMatch: no memory");
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      auto found = matcher.Find(x.Data<std::string>()[i], 0);
      if (!found.ok()) return std::move(found).TakeStatus().Within(fmt::format("RegexFullMatch: string {}", i));
      args.out[0].Data<bool>()[i] = *found;
    }
    return Status::Ok();
  }

 private:
  Pattern pattern_;
};

}  // namespace

Status InferRegexFullMatch(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(NeedStrings("RegexFullMatch", args.in[0].dtype));
  movement::SetTensor(&args.out[0], DType::kBool, args.in[0].shape);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeRegexFullMatch(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile(p.attrs.String("pattern", ""), true, "RegexFullMatch"));
  return std::unique_ptr<Kernel>(new RegexKernel(std::move(pattern)));
}

}  // namespace tenon::kernels::strings
