// Cores, nodes, memory of the machine, cut by what this process may use.
#ifndef TENON_DEVICE_TOPOLOGY_H_
#define TENON_DEVICE_TOPOLOGY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::device {

struct Core {
  int cpu = 0;        ///< logical CPU
  int node = 0;       ///< NUMA node, by its own list: ids may interleave
  int socket = 0;
  int core = 0;       ///< physical core within the socket; threads of one core share it
};

struct Topology {
  std::vector<Core> cores;          ///< by cpu, of the affinity mask
  int usable = 1;                   ///< cores that may run at one time: the mask and the cgroup quota, whichever is less
  uint64_t memory_total = 0;        ///< bytes of the machine
  uint64_t memory_limit = 0;        ///< of the tightest cgroup, at most memory_total
  uint64_t memory_used = 0;         ///< of that cgroup, else of the machine
  std::string explanation;          ///< how `usable` was reached
};

/// `root` is put before /sys and /proc, so that tests can point at a fake tree.
Topology ReadTopology(const std::string& root = "");

/// Degrees Celsius of the CPUs' hottest sensor; nothing where the machine shows none, as most virtual ones.
std::optional<double> ReadTemperature(const std::string& root = "");

/// "0-3,8" -> 0 1 2 3 8. kUsage: no such list.
Result<std::vector<int>> ParseCpuList(const std::string& text);

struct Part {
  std::vector<int> cpus;
  double share = 1;   ///< of their time

  bool operator==(const Part&) const = default;
};

/// How `layout` cuts `cores` into parts, in their order, neighbours on one node together: "4" (equal parts), "1/4+3/4",
/// "cores=0-3,8". Where a part is no whole number of cores, all parts have all cores and share their time. kUsage: no such
/// layout, or a core is not there.
Result<std::vector<Part>> SplitCores(const std::vector<Core>& cores, const std::string& layout);

/// Busy share 0..1 of each of `cpus` since the last call with the same `state`.
class Utilisation {
 public:
  explicit Utilisation(std::string root = "") : root_(std::move(root)) {}
  std::vector<double> Read(const std::vector<int>& cpus);

 private:
  struct Times {
    uint64_t busy = 0, all = 0;
  };
  std::string root_;
  std::vector<Times> last_;   // by cpu
};

}  // namespace tenon::device

#endif  // TENON_DEVICE_TOPOLOGY_H_
