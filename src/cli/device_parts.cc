#include "cli/device_parts.h"

#include "device/topology.h"

namespace tenon::cli {

Result<std::vector<DeviceGroup>> PartsOf(const std::vector<int>& cpus, const std::string& layout) {
  std::vector<device::Core> cores;
  for (const device::Core& c : device::ReadTopology().cores) {
    if (std::find(cpus.begin(), cpus.end(), c.cpu) != cpus.end()) cores.push_back(c);
  }
  TENON_ASSIGN_OR_RETURN(const auto parts, device::SplitCores(cores, layout));
  std::vector<DeviceGroup> groups;
  for (const device::Part& part : parts) {
    DeviceGroup group;
    group.name = fmt::format("part{}", groups.size());
    group.cores = part.cpus;
    group.weight = part.share;
    group.exclusive = part.share == 1;
    if (!group.exclusive) group.quota = part.share * static_cast<double>(part.cpus.size());
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace tenon::cli
