// Status and Result<T>: how every fallible call of Tenon answers. No exception crosses this API.
#ifndef TENON_STATUS_H_
#define TENON_STATUS_H_

#include <optional>
#include <string>
#include <utility>

namespace tenon {

/// The numeric values are the exit codes of the command line (docs/errors.md).
enum class Code : int {
  kOk = 0,
  kInternal = 1,       ///< our own failure
  kUsage = 2,          ///< wrong call: unknown name, wrong shape or type given by the caller
  kBadInput = 3,       ///< model, data or configuration damaged, missing or contradictory
  kUnsupported = 4,    ///< valid, but not supported here; the message names the node and why
  kGuardRefused = 5,   ///< the accuracy guard refused
  kResourceLimit = 6,  ///< memory, time, disk or size limit
  kCancelled = 130,    ///< cancelled by the caller or by Ctrl-C
};

/// A code, a message ("what; where; what is allowed") and nothing else. Cheap when OK.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  /// The same failure with "context: " put before the message; OK stays OK.
  Status Within(const std::string& context) && {
    if (!ok()) message_ = context + ": " + message_;
    return std::move(*this);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

/// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {         // NOLINT(google-explicit-constructor)
    if (status_.ok()) status_ = Status(Code::kInternal, "Result built from an OK status");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  Status TakeStatus() && { return std::move(status_); }

  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tenon

#endif  // TENON_STATUS_H_
