// The thread team of a session: a fixed number of threads, pinned to the cores of its partition, the caller of a run being one of
// them. The others start with the first region wide enough and end with the team. A Team is used by one run at a time.
//
// Machines are shared: a thread that others keep from its core must not hold up the rest. A region is cut into as many parts as
// it has threads, and who is free takes the next part: where a worker does not come, the caller does its part. Waiting threads
// spin for a moment (a region that follows soon costs well under a microsecond) and then sleep.
#ifndef TENON_HW_TEAM_H_
#define TENON_HW_TEAM_H_

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace tenon::hw {

class Team {
 public:
  /// `threads` >= 1. `cores`: logical CPUs to pin to, thread i to cores[i % size]; empty: no pinning.
  explicit Team(int threads, std::vector<int> cores = {});
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return threads_; }
  const std::vector<int>& cores() const { return cores_; }

  /// Prepares the calling thread to lead this team: pins it where the team spans several cores. Called once per run; cheap when
  /// the same thread led last time.
  void Enter();

  /// Calls f(begin, end, part) for a static split of [0, n) into up to size() parts in multiples of `grain`, on up to as many
  /// threads. `part` is below size() and no two calls with the same one: an index of scratch memory. The split depends on n,
  /// grain and size() only. With one thread, n <= grain, or inside another region: one direct call f(0, n, 0).
  template <typename F>
  void ParallelFor(int64_t n, int64_t grain, F&& f) {
    Run(
        n, grain,
        [](void* context, int64_t begin, int64_t end, int thread) {
          (*static_cast<std::remove_reference_t<F>*>(context))(begin, end, thread);
        },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  class Workers;

  void Run(int64_t n, int64_t grain, void (*f)(void*, int64_t, int64_t, int), void* context);

  int threads_;
  std::vector<int> cores_;
  uint64_t led_by_ = 0;
  std::unique_ptr<Workers> workers_;
};

}  // namespace tenon::hw

#endif  // TENON_HW_TEAM_H_
