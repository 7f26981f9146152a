// Status helpers used everywhere inside: macros that pass failures up, and CHECK for our own bugs.
#ifndef TENON_BASE_STATUS_H_
#define TENON_BASE_STATUS_H_

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "tenon/status.h"

namespace tenon {

template <typename... Args>
Status MakeStatus(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
Status Internal(fmt::format_string<Args...> f, Args&&... a) {
  return Status(Code::kInternal, fmt::format(f, std::forward<Args>(a)...));
}
template <typename... Args>
Status Usage(fmt::format_string<Args...> f, Args&&... a) {
  return Status(Code::kUsage, fmt::format(f, std::forward<Args>(a)...));
}
template <typename... Args>
Status BadInput(fmt::format_string<Args...> f, Args&&... a) {
  return Status(Code::kBadInput, fmt::format(f, std::forward<Args>(a)...));
}
template <typename... Args>
Status Unsupported(fmt::format_string<Args...> f, Args&&... a) {
  return Status(Code::kUnsupported, fmt::format(f, std::forward<Args>(a)...));
}
template <typename... Args>
Status ResourceLimit(fmt::format_string<Args...> f, Args&&... a) {
  return Status(Code::kResourceLimit, fmt::format(f, std::forward<Args>(a)...));
}

/// "internal", "usage", "bad-input", ...: the word for `code` in JSON errors and logs.
std::string_view CodeName(Code code);

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace tenon

#define TENON_CONCAT_INNER(a, b) a##b
#define TENON_CONCAT(a, b) TENON_CONCAT_INNER(a, b)

#define TENON_RETURN_IF_ERROR(expr)              \
  do {                                           \
    ::tenon::Status tenon_status = (expr);       \
    if (!tenon_status.ok()) return tenon_status; \
  } while (0)

#define TENON_ASSIGN_OR_RETURN_IMPL(result, lhs, expr)     \
  auto result = (expr);                                    \
  if (!result.ok()) return std::move(result).TakeStatus(); \
  lhs = std::move(result).value()
/// `TENON_ASSIGN_OR_RETURN(auto x, F());`
#define TENON_ASSIGN_OR_RETURN(lhs, expr) TENON_ASSIGN_OR_RETURN_IMPL(TENON_CONCAT(tenon_result_, __LINE__), lhs, expr)

/// For our own bugs only: prints and aborts. Never on outside input.
#define CHECK(condition) (static_cast<bool>(condition) ? (void)0 : ::tenon::CheckFailed(__FILE__, __LINE__, #condition))

#endif  // TENON_BASE_STATUS_H_
