#include "cli/progress.h"

#include <unistd.h>

#include <cstdio>

namespace tenon::cli {

Progress::Progress(const Context& context) : shown_(!context.json && !context.quiet && isatty(STDERR_FILENO) == 1) {}

void Progress::Update(const std::string& what, size_t done, size_t total) {
  if (!shown_ || total == 0) return;
  const auto now = Clock::now();
  if (what != what_) {
    what_ = what;
    start_ = now;
    last_ = {};
  }
  constexpr auto kInterval = std::chrono::milliseconds(200);
  if (now - last_ < kInterval) return;
  last_ = now;
  const double spent = std::chrono::duration<double>(now - start_).count();
  std::string left;
  if (done > 0 && spent > 1)
    left = fmt::format(", {:.0f} s left", spent / static_cast<double>(done) * static_cast<double>(total - done));
  fmt::print(stderr, "\r\033[K{}: {} of {}{}", what, done, total, left);
  std::fflush(stderr);
  dirty_ = true;
}

void Progress::Clear() {
  if (!dirty_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  dirty_ = false;
}

}  // namespace tenon::cli
