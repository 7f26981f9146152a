#include "hw/quota.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "hw/cgroups.h"

namespace tenon::hw {
namespace {

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<double> ReadNumber(const std::string& path) {
  const auto text = ReadText(path);
  if (!text) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  return end == text->c_str() ? std::nullopt : std::optional<double>(value);
}

void Tighten(std::optional<double> quota, std::optional<double>* tightest) {
  if (quota && (!*tightest || *quota < **tightest)) *tightest = quota;
}

std::optional<double> CgroupV1Quota(const std::string& directory) {
  const auto quota = ReadNumber(directory + "/cpu.cfs_quota_us");
  const auto period = ReadNumber(directory + "/cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

std::optional<double> TightestQuota(const std::string& root) {
  std::optional<double> tightest;
  for (const Cgroup& own : ParseCgroups(ReadText(root + "/proc/self/cgroup").value_or("0::/\n"))) {
    for (const std::string& path : PathsToRoot(own.path)) {
      if (own.is_v2()) {
        const auto text = ReadText(root + "/sys/fs/cgroup" + path + "/cpu.max");
        if (text) Tighten(ParseCpuMax(*text), &tightest);
      } else if (own.Has("cpu")) {
        Tighten(CgroupV1Quota(root + "/sys/fs/cgroup/cpu" + path), &tightest);
        Tighten(CgroupV1Quota(root + "/sys/fs/cgroup/cpu,cpuacct" + path), &tightest);
      }
    }
  }
  return tightest;
}

}  // namespace

std::optional<double> ParseCpuMax(const std::string& text) {
  std::istringstream in(text);
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || period <= 0 || quota == "max") return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(quota.c_str(), &end);
  if (end == quota.c_str() || *end != '\0' || value <= 0) return std::nullopt;
  return value / period;
}

CpuAllowance DetectCpuAllowance(const std::string& root) {
  CpuAllowance a;
  // Sets larger than CPU_SETSIZE exist: grow until the kernel is content.
  for (int size = 1024; size <= (1 << 16) && a.cpus.empty(); size *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(size));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(size));
    CPU_ZERO_S(bytes, set);
    if (sched_getaffinity(0, bytes, set) == 0) {
      for (int cpu = 0; cpu < size; ++cpu) {
        if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) a.cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
  }
  if (a.cpus.empty()) a.cpus.push_back(0);
  a.quota = TightestQuota(root);
  a.threads = static_cast<int>(a.cpus.size());
  if (a.quota) a.threads = std::min(a.threads, std::max(1, static_cast<int>(std::floor(*a.quota + 1e-9))));
  a.explanation =
      fmt::format("{} CPUs in the affinity mask, {} -> {} threads", a.cpus.size(),
                  a.quota ? fmt::format("cgroup quota of {:.2f} CPUs", *a.quota) : std::string("no cgroup quota"), a.threads);
  return a;
}

}  // namespace tenon::hw
