// Lets runs of different models share cores without ever running more threads than there are: a run takes its cores and gives
// them back. First come, first served among those that want the same cores.
#ifndef TENON_SERVE_CORE_GATE_H_
#define TENON_SERVE_CORE_GATE_H_

#include <condition_variable>
#include <list>
#include <mutex>
#include <set>
#include <vector>

namespace tenon::serve {

class CoreGate {
 public:
  /// Blocks until all of `cores` are free and nobody who came before wants one of them.
  void Acquire(const std::vector<int>& cores) {
    std::unique_lock lock(mutex_);
    const auto me = waiting_.insert(waiting_.end(), &cores);
    changed_.wait(lock, [&] { return Free(cores) && First(me); });
    waiting_.erase(me);
    busy_.insert(cores.begin(), cores.end());
    if (!waiting_.empty()) changed_.notify_all();
  }
  void Release(const std::vector<int>& cores) {
    const std::lock_guard lock(mutex_);
    for (int c : cores) busy_.erase(c);
    if (!waiting_.empty()) changed_.notify_all();
  }
  size_t busy() const {
    const std::lock_guard lock(mutex_);
    return busy_.size();
  }

 private:
  using Waiting = std::list<const std::vector<int>*>;
  bool Free(const std::vector<int>& cores) const {
    for (int c : cores) {
      if (busy_.count(c) > 0) return false;
    }
    return true;
  }
  bool First(Waiting::iterator me) const {
    for (auto it = Waiting::const_iterator(waiting_.begin()); it != Waiting::const_iterator(me); ++it) {
      for (int c : **it) {
        for (int mine : **me) {
          if (c == mine) return false;
        }
      }
    }
    return true;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> busy_;
  Waiting waiting_;
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_CORE_GATE_H_
