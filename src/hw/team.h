// The thread team of a session: a fixed number of threads, pinned to the cores of its partition. OpenMP underneath, the one
// runtime that oneDNN shares. A Team is used by one run at a time; it starts no thread of its own in steady state.
#ifndef TENON_HW_TEAM_H_
#define TENON_HW_TEAM_H_

#include <cstdint>
#include <type_traits>
#include <vector>

namespace tenon::hw {

class Team {
 public:
  /// `threads` >= 1. `cores`: logical CPUs to pin to, thread i to cores[i % size]; empty: no pinning.
  explicit Team(int threads, std::vector<int> cores = {});

  int size() const { return threads_; }
  const std::vector<int>& cores() const { return cores_; }

  /// Prepares the calling thread to lead this team: sets its OpenMP width and pins the team. Called once per run;
  /// cheap when the same thread led last time.
  void Enter();

  /// Calls f(begin, end, thread) on up to size() threads for a static split of [0, n) in multiples of `grain`.
  /// With one thread, n <= grain, or inside another region: one direct call f(0, n, 0).
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
  void Run(int64_t n, int64_t grain, void (*f)(void*, int64_t, int64_t, int), void* context);

  int threads_;
  std::vector<int> cores_;
  uint64_t led_by_ = 0;
};

}  // namespace tenon::hw

#endif  // TENON_HW_TEAM_H_
