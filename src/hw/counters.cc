#include "hw/counters.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace tenon::hw {

namespace {

constexpr uint64_t kConfigs[kEvents] = {PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CACHE_MISSES};

int Open(uint64_t config) {
  perf_event_attr attr;
  std::memset(&attr, 0, sizeof(attr));
  attr.type = PERF_TYPE_HARDWARE;
  attr.size = sizeof(attr);
  attr.config = config;
  attr.inherit = 1;          // threads of the team
  attr.exclude_kernel = 1;   // allowed without privileges up to perf_event_paranoid 2
  attr.exclude_hv = 1;
  attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return static_cast<int>(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

std::string Reason(int error) {
  if (error == ENOENT || error == ENODEV || error == EOPNOTSUPP)
    return "this machine shows none (a virtual machine without them?)";
  if (error == EACCES || error == EPERM) {
    std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
    std::string level;
    file >> level;
    return fmt::format(
        "the kernel does not allow them (perf_event_paranoid is {}; 2 or less is needed, or a container denies them)",
        level.empty() ? "unknown" : level);
  }
  if (error == ENOSYS) return "the kernel has none";
  return std::strerror(error);
}

}  // namespace

Counters::Counters() {
  fds_.fill(-1);
  for (size_t i = 0; i < kEvents; ++i) {
    fds_[i] = Open(kConfigs[i]);
    if (fds_[i] < 0 && why_.empty()) why_ = Reason(errno);
  }
}

Counters::~Counters() {
  for (int fd : fds_) {
    if (fd >= 0) close(fd);
  }
}

bool Counters::available() const {
  for (int fd : fds_) {
    if (fd >= 0) return true;
  }
  return false;
}

Counts Counters::Read() const {
  Counts counts;
  counts.fill(-1);
  for (size_t i = 0; i < kEvents; ++i) {
    uint64_t values[3] = {};   // count, time enabled, time running
    if (fds_[i] < 0 || read(fds_[i], values, sizeof(values)) != static_cast<ssize_t>(sizeof(values))) continue;
    const double scale = values[2] == 0 ? 0 : static_cast<double>(values[1]) / static_cast<double>(values[2]);
    counts[i] = static_cast<double>(values[0]) * scale;
  }
  return counts;
}

}  // namespace tenon::hw
