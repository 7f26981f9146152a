// The processor by name, and its caches.
#ifndef TENON_HW_CPU_H_
#define TENON_HW_CPU_H_

#include <cstdint>
#include <string>

namespace tenon::hw {

/// "Intel(R) Xeon(R) Processor (family 6, model 143)", of /proc/cpuinfo.
std::string CpuName();

struct CacheSizes {
  uint64_t l1 = 32 << 10;    ///< bytes of data of one core
  uint64_t l2 = 1 << 20;     ///< of one core
  uint64_t l3 = 0;           ///< of the socket, as far as the system tells; 0: none
};
CacheSizes DetectCaches();

}  // namespace tenon::hw

#endif  // TENON_HW_CPU_H_
