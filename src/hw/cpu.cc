#include "hw/cpu.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

namespace tenon::hw {

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

CacheSizes DetectCaches() {
  CacheSizes sizes;
  const auto take = [](int name, uint64_t* size) {
    const long value = sysconf(name);
    if (value > 0) *size = static_cast<uint64_t>(value);
  };
#ifdef _SC_LEVEL1_DCACHE_SIZE
  take(_SC_LEVEL1_DCACHE_SIZE, &sizes.l1);
  take(_SC_LEVEL2_CACHE_SIZE, &sizes.l2);
  take(_SC_LEVEL3_CACHE_SIZE, &sizes.l3);
#endif
  return sizes;
}

}  // namespace tenon::hw
