#include "cli/machine.h"

#include "hw/cpu.h"
#include "hw/isa.h"
#include "hw/quota.h"

namespace tenon::cli {

Json MachineJson() {
  const auto isa = hw::ActiveIsa();
  return {{"cpu", hw::CpuName()}, {"isa", isa.ok() ? hw::IsaToString(*isa) : ""}, {"cores", hw::DetectCpuAllowance().threads}};
}

std::string MachineText() {
  const auto isa = hw::ActiveIsa();
  return fmt::format("{}, {}", hw::CpuName(), isa.ok() ? hw::IsaToString(*isa) : "");
}

}  // namespace tenon::cli
