// Hardware counters of this process by perf_event_open, where the kernel and the machine have them.
#ifndef TENON_HW_COUNTERS_H_
#define TENON_HW_COUNTERS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::hw {

enum class Event { kCycles, kInstructions, kLlcMisses };
inline constexpr size_t kEvents = 3;
using Counts = std::array<double, kEvents>;   ///< by Event; negative: not counted

class Counters {
 public:
  /// Counts the calling thread and the threads that it starts from now on. Never fails: see available() and why().
  Counters();
  ~Counters();
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  /// Some event is counted.
  bool available() const;
  /// Why events are missing, for people; empty when all are there.
  const std::string& why() const { return why_; }
  /// Since construction, user space alone. Where the machine counts in turns, scaled to the whole time.
  Counts Read() const;

 private:
  std::array<int, kEvents> fds_;
  std::string why_;
};

}  // namespace tenon::hw

#endif  // TENON_HW_COUNTERS_H_
