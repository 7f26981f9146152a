// Changes of case as Python's str has them.
#ifndef TENON_TEXT_TEMPLATE_STRINGS_H_
#define TENON_TEXT_TEMPLATE_STRINGS_H_

#include <string>
#include <string_view>

namespace tenon::text {

std::string FullUpper(std::string_view s);
std::string FullLower(std::string_view s);
/// str.isupper(), str.islower().
bool IsCased(std::string_view s, bool upper);

}  // namespace tenon::text

#endif  // TENON_TEXT_TEMPLATE_STRINGS_H_
