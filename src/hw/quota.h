// How many CPUs this process may use: affinity mask and cgroup CPU quota (v1 and v2), whichever is less.
#ifndef TENON_HW_QUOTA_H_
#define TENON_HW_QUOTA_H_

#include <optional>
#include <string>
#include <vector>

namespace tenon::hw {

struct CpuAllowance {
  std::vector<int> cpus;            ///< logical CPUs of the affinity mask, ascending
  std::optional<double> quota;      ///< CPUs by the tightest cgroup quota on the path to the root; nullopt: none
  int threads = 1;                  ///< min(cpus, floor(quota)), at least 1
  std::string explanation;          ///< one line that says how `threads` was reached
};

/// `root` is put before /sys and /proc paths, so that tests can point at a fake tree.
CpuAllowance DetectCpuAllowance(const std::string& root = "");

/// Quota of one cgroup file's text: v2 "400000 100000" or "max 100000"; nullopt for none or nonsense.
std::optional<double> ParseCpuMax(const std::string& text);

}  // namespace tenon::hw

#endif  // TENON_HW_QUOTA_H_
