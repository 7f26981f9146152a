// The server's log: one line a record, as text or as JSON.
#ifndef TENON_SERVER_LOG_H_
#define TENON_SERVER_LOG_H_

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"

namespace tenon::server {

enum class LogLevel : int { kError, kWarning, kInfo, kVerbose };

struct LogField {
  std::string_view name;
  std::variant<std::string_view, uint64_t> value;   ///< an empty text leaves the field out
};

using LogValues = std::map<std::string, std::variant<bool, uint64_t, std::string>>;

class Log {
 public:
  enum class Format { kText, kJson };

  Log() = default;
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Without a path: stderr.
  Status Open(const std::string& path, Format format);
  /// Opens the file again, under its name: whoever rotates files has moved the old one away. On failure the old one stays.
  Status Reopen();

  /// By the names of v2/logging: log_file, log_error, log_warning, log_info, log_verbose_level (1: a line for each request),
  /// log_format.
  LogValues Values() const;
  /// All or nothing. kUsage names the setting, what was given and what is allowed.
  Status Change(const LogValues& values);
  bool Wants(LogLevel level) const { return (levels_.load(std::memory_order_relaxed) & Bit(level)) != 0; }

  /// "2026-01-31T12:00:00.123Z info MESSAGE name=value ..."; values are quoted where they hold more than plain characters.
  void Write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
  /// A failure as an error, else nothing.
  void Write(std::string_view what, const Status& status);

 private:
  static constexpr unsigned Bit(LogLevel level) { return 1U << static_cast<unsigned>(level); }

  std::atomic<unsigned> levels_{Bit(LogLevel::kError) | Bit(LogLevel::kWarning) | Bit(LogLevel::kInfo)};
  std::atomic<uint64_t> verbose_{0};                // kVerbose is wanted when this is not 0
  std::string path_;
  Format format_ = Format::kText;
  std::mutex mutex_;                                // of the file
  int fd_ = 2;
};

}  // namespace tenon::server

#endif  // TENON_SERVER_LOG_H_
