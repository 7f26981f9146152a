// A line on stderr that says how far long work has come and how long it will take; on a terminal only.
#ifndef TENON_CLI_PROGRESS_H_
#define TENON_CLI_PROGRESS_H_

#include <chrono>
#include <string>

#include "cli/command.h"

namespace tenon::cli {

class Progress {
 public:
  explicit Progress(const Context& context);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total` of `what`; the clock starts anew with another `what`.
  void Update(const std::string& what, size_t done, size_t total);
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool shown_;
  bool dirty_ = false;
  std::string what_;
  Clock::time_point start_;
  Clock::time_point last_;
};

}  // namespace tenon::cli

#endif  // TENON_CLI_PROGRESS_H_
