#include "server/log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "server/json_text.h"

namespace tenon::server {
namespace {

const std::string kTimes = "ISO8601";   // how lines tell the time
constexpr std::string_view kLevels[] = {"error", "warning", "info", "verbose"};

std::string Now() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(ms / 1000)), ms % 1000);
}

// Text that a client chose stays one word of one line.
void AppendWord(std::string_view text, std::string* out) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '='; });
  if (plain && !text.empty()) {
    *out += text;
  } else {
    AppendJsonString(text, out);
  }
}

bool IsEmpty(const LogField& field) {
  const auto* text = std::get_if<std::string_view>(&field.value);
  return text != nullptr && text->empty();
}

std::string TextLine(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = fmt::format("{} {} {}", Now(), kLevels[static_cast<int>(level)], message);
  for (const LogField& field : fields) {
    if (IsEmpty(field)) continue;
    line += fmt::format(" {}=", field.name);
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      AppendWord(*text, &line);
    } else {
      line += std::to_string(std::get<uint64_t>(field.value));
    }
  }
  return line;
}

std::string JsonLine(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = fmt::format(R"({{"time":"{}","level":"{}","message":)", Now(), kLevels[static_cast<int>(level)]);
  AppendJsonString(message, &line);
  for (const LogField& field : fields) {
    if (IsEmpty(field)) continue;
    line += fmt::format(",\"{}\":", field.name);
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      AppendJsonString(*text, &line);
    } else {
      line += std::to_string(std::get<uint64_t>(field.value));
    }
  }
  return line + "}";
}

}  // namespace

Log::~Log() {
  if (!path_.empty()) close(fd_);
}

Status Log::Open(const std::string& path, Format format) {
  format_ = format;
  if (path.empty()) return Status::Ok();
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd < 0) return BadInput("cannot write '{}'; {}", path, std::strerror(errno));
  const std::lock_guard lock(mutex_);
  const int old = std::exchange(fd_, fd);
  if (old != 2) close(old);
  if (path_ != path) path_ = path;
  return Status::Ok();
}

Status Log::Reopen() {
  return path_.empty() ? Status::Ok() : Open(path_, format_);
}

LogValues Log::Values() const {
  return {{"log_file", path_},
          {"log_error", Wants(LogLevel::kError)},
          {"log_warning", Wants(LogLevel::kWarning)},
          {"log_info", Wants(LogLevel::kInfo)},
          {"log_verbose_level", verbose_.load()},
          {"log_format", kTimes}};
}

Status Log::Change(const LogValues& values) {
  static const std::map<std::string, LogLevel> kSwitches = {
      {"log_error", LogLevel::kError}, {"log_warning", LogLevel::kWarning}, {"log_info", LogLevel::kInfo}};
  unsigned levels = levels_;
  uint64_t verbose = verbose_;
  const auto turn = [&levels](LogLevel level, bool on) { levels = on ? levels | Bit(level) : levels & ~Bit(level); };
  for (const auto& [name, value] : values) {
    const auto* text = std::get_if<std::string>(&value);
    const auto* on = std::get_if<bool>(&value);
    const auto* number = std::get_if<uint64_t>(&value);
    if (const auto level = kSwitches.find(name); level != kSwitches.end()) {
      if (on == nullptr) return Usage("{}; true or false is expected", name);
      turn(level->second, *on);
    } else if (name == "log_verbose_level") {
      if (number == nullptr) return Usage("{}; a number >= 0 is expected", name);
      verbose = *number;
      turn(LogLevel::kVerbose, verbose > 0);
    } else if (name == "log_file") {
      if (text == nullptr || *text != path_)
        return Usage("log_file cannot be changed while the server runs; tenon serve --log-file FILE sets it");
    } else if (name == "log_format") {
      if (text == nullptr || *text != kTimes) return Usage("log_format; allowed: {}", kTimes);
    } else {
      return Usage("unknown setting '{}'; allowed: log_file, log_error, log_warning, log_info, log_verbose_level, log_format",
                   name);
    }
  }
  levels_ = levels;
  verbose_ = verbose;
  return Status::Ok();
}

void Log::Write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!Wants(level)) return;
  const std::string line = (format_ == Format::kJson ? JsonLine : TextLine)(level, message, fields) + "\n";
  const std::lock_guard lock(mutex_);
  // A full disk or a closed pipe must not stop requests.
  (void)!write(fd_, line.data(), line.size());
}

void Log::Write(std::string_view what, const Status& status) {
  if (!status.ok()) Write(LogLevel::kError, what, {{"reason", status.message()}});
}

}  // namespace tenon::server
