// Keeps the work for a partition on its cores: a thread that computes there says so, and those that send what it made follow.
#ifndef TENON_SERVE_HOME_CORES_H_
#define TENON_SERVE_HOME_CORES_H_

#include <pthread.h>
#include <sched.h>

#include <memory>
#include <utility>
#include <vector>

namespace tenon::serve {

using Cores = std::shared_ptr<const std::vector<int>>;

/// Of the partition whose work the calling thread does; null: of none.
inline Cores& HomeCores() {
  thread_local Cores home;
  return home;
}

inline void PinSelf(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int c : cores) CPU_SET(static_cast<size_t>(c), &set);
  // A refusal (a core taken away meanwhile) costs speed only.
  (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/// Takes the calling thread to `cores`, for one that serves several partitions in turn; null: it stays. Cheap where it already
/// is.
inline void FollowTo(const Cores& cores) {
  thread_local Cores here;
  if (cores == nullptr || cores == here) return;
  if (here == nullptr || *cores != *here) PinSelf(*cores);
  here = cores;
}

}  // namespace tenon::serve

#endif  // TENON_SERVE_HOME_CORES_H_
