#include "cli/machine.h"

#include <fstream>

#include "hw/isa.h"
#include "hw/quota.h"

namespace tenon::cli {

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  std::string family;
  std::string model;
  std::string name = "unknown CPU";
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    if (line.starts_with("model name")) name = value;
    if (line.starts_with("cpu family")) family = value;
    if (line.starts_with("model\t")) model = value;
  }
  return family.empty() ? name : fmt::format("{} (family {}, model {})", name, family, model);
}

Json MachineJson() {
  const auto isa = hw::ActiveIsa();
  return {{"cpu", CpuName()}, {"isa", isa.ok() ? hw::IsaToString(*isa) : ""}, {"cores", hw::DetectCpuAllowance().threads}};
}

std::string MachineText() {
  const auto isa = hw::ActiveIsa();
  return fmt::format("{}, {}", CpuName(), isa.ok() ? hw::IsaToString(*isa) : "");
}

}  // namespace tenon::cli
