#include "hw/team.h"

#include "hw/team_width.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tenon::hw {
namespace {

void PinSelf(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  // A refusal (a core taken away meanwhile) costs speed only.
  (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

// Of the teams that this thread leads; see team_width.h.
thread_local int widest = 1;

}  // namespace

int TakeTeamWidth() {
  return std::exchange(widest, 1);
}

Team::Team(int threads, std::vector<int> cores) : threads_(std::max(1, threads)), cores_(std::move(cores)) {}

void Team::Enter() {
#ifdef _OPENMP
  const auto self = static_cast<uint64_t>(pthread_self());
  if (self == led_by_) return;
  led_by_ = self;
  omp_set_num_threads(threads_);
  if (cores_.empty()) return;
#pragma omp parallel num_threads(threads_)
  {
    // The leader is the caller's thread: its affinity is the caller's business unless the team spans one core.
    const int i = omp_get_thread_num();
    if (i > 0 || threads_ > 1) PinSelf(cores_[static_cast<size_t>(i) % cores_.size()]);
  }
#endif
}

void Team::Run(int64_t n, int64_t grain, void (*f)(void*, int64_t, int64_t, int), void* context) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  const int64_t chunks = (n + grain - 1) / grain;
  const int threads = static_cast<int>(std::min<int64_t>(threads_, chunks));
#ifdef _OPENMP
  if (threads > 1 && omp_in_parallel() == 0) {
    widest = std::max(widest, threads);
#pragma omp parallel num_threads(threads)
    {
      const int64_t width = omp_get_num_threads();
      const int64_t i = omp_get_thread_num();
      const int64_t begin = std::min(n, chunks * i / width * grain);
      const int64_t end = std::min(n, chunks * (i + 1) / width * grain);
      if (begin < end) f(context, begin, end, static_cast<int>(i));
    }
    return;
  }
#endif
  f(context, 0, n, 0);
}

}  // namespace tenon::hw
