// Cores cut into resource groups.
#ifndef TENON_CLI_DEVICE_PARTS_H_
#define TENON_CLI_DEVICE_PARTS_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "tenon/server.h"

namespace tenon::cli {

/// Groups part0, part1, ... as `layout` (device::SplitCores) cuts those of `cpus` that this machine has: exclusive where parts
/// are whole cores, else of all cores by weight and quota.
Result<std::vector<DeviceGroup>> PartsOf(const std::vector<int>& cpus, const std::string& layout);

}  // namespace tenon::cli

#endif  // TENON_CLI_DEVICE_PARTS_H_
