// Makers of the rows of this family.
#ifndef TENON_KERNELS_STRINGS_INTERNAL_H_
#define TENON_KERNELS_STRINGS_INTERNAL_H_

#include "kernels/movement/element.h"
#include "kernels/strings/strings.h"

namespace tenon::kernels::strings {

Result<std::unique_ptr<Kernel>> MakeStringConcat(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeStringSplit(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeStringNormalizer(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeRegexFullMatch(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeTfIdfVectorizer(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeTokenizer(const Problem& problem);

inline Status NeedStrings(std::string_view op, DType t) {
  return t == DType::kString || t == DType::kUndefined ? Status::Ok()
                                                       : BadInput("{}: input must be string, not {}", op, DTypeName(t));
}

}  // namespace tenon::kernels::strings

#endif  // TENON_KERNELS_STRINGS_INTERNAL_H_
