// Lets runs of different models share cores without ever running more threads than there are: a run takes its cores and gives
// them back. Groups that share cores get time by their weights, run by run; within a group first come, first served.
#ifndef TENON_SERVE_CORE_GATE_H_
#define TENON_SERVE_CORE_GATE_H_

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "serve/turn_order.h"

namespace tenon::serve {

class CoreGate {
 public:
  /// The share of group `name`, kept as long as the gate; `weight` from now on.
  TimeShare& ShareOf(const std::string& name, double weight) {
    const std::lock_guard lock(mutex_);
    TimeShare& share = shares_[name];
    share.weight = weight;
    return share;
  }

  /// Blocks until it is the caller's turn on all of `cores`; none: at once.
  void Acquire(const std::vector<int>& cores, TimeShare& share) {
    std::unique_lock lock(mutex_);
    const auto ticket = order_.Arrive(cores, share);
    changed_.wait(lock, [&] { return order_.MayStart(ticket); });
    order_.Start(ticket);
    if (!cores.empty()) since_[cores.front()] = Clock::now();
    if (order_.anybody_waits()) changed_.notify_all();
  }
  void Release(const std::vector<int>& cores, TimeShare& share) {
    const std::lock_guard lock(mutex_);
    const auto since = cores.empty() ? Clock::now() : since_[cores.front()];
    order_.End(cores, share, std::chrono::duration<double>(Clock::now() - since).count());
    if (order_.anybody_waits()) changed_.notify_all();
  }
  size_t busy() const {
    const std::lock_guard lock(mutex_);
    return order_.busy();
  }

 private:
  using Clock = std::chrono::steady_clock;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  TurnOrder order_;
  std::map<std::string, TimeShare> shares_;
  std::map<int, Clock::time_point> since_;   // by first core: when the turn on it began
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_CORE_GATE_H_
