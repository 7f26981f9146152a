#include "hw/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "hw/team_width.h"

namespace tenon::hw {
namespace {

// A worker looks out for the next region this long before it sleeps: longer than what runs between the regions of a model, short
// enough to leave the core to others soon.
constexpr std::chrono::microseconds kSpin{200};

void PinSelf(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  // A refusal (a core taken away meanwhile) costs speed only.
  (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Of the teams that this thread leads; see team_width.h.
thread_local int widest = 1;
thread_local bool in_region = false;

// Threads do not survive a fork: teams of the parent start theirs again in the child.
std::atomic<uint32_t> forks{0};

void WatchForks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

// Waits until `value` is no longer `old`: spins, then sleeps. The new value.
uint32_t AwaitChange(const std::atomic<uint32_t>& value, uint32_t old) {
  constexpr int kLook = 64;   // pauses between looks at the clock
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kLook; ++i) {
      const uint32_t now = value.load(std::memory_order_acquire);
      if (now != old) return now;
      Pause();
    }
  } while (std::chrono::steady_clock::now() - start < kSpin);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

struct Region {
  void (*f)(void*, int64_t, int64_t, int);
  void* context;
  int64_t n, grain, chunks;
};

}  // namespace

int TakeTeamWidth() {
  return std::exchange(widest, 1);
}

// `ticket_` holds the number of a region, its parts and the next part to take. Who raises it has taken that part, and until all
// taken parts are done the leader neither returns nor begins another region: what it wrote to `region_` before stays.
class Team::Workers {
 public:
  Workers(int count, const std::vector<int>& cores) : born_(forks.load(std::memory_order_relaxed)) {
    // Signals are the business of the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i <= count; ++i) {
      const int core = cores.empty() ? -1 : cores[static_cast<size_t>(i) % cores.size()];
      threads_.emplace_back([this, core] {
        if (core >= 0) PinSelf(core);
        Work();
      });
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Workers() {
    stop_.store(true, std::memory_order_relaxed);
    number_.fetch_add(1, std::memory_order_release);
    number_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  bool OfThisProcess() const { return born_ == forks.load(std::memory_order_relaxed); }

  void Run(const Region& region, int parts) {
    region_ = region;
    left_.store(static_cast<uint32_t>(parts), std::memory_order_relaxed);
    const uint32_t number = number_.load(std::memory_order_relaxed) + 1;
    ticket_.store(uint64_t{number} << 32 | static_cast<uint64_t>(parts) << 16, std::memory_order_release);
    number_.store(number, std::memory_order_release);
    if (parts - 1 < static_cast<int>(threads_.size())) {
      for (int i = 1; i < parts; ++i) number_.notify_one();
    } else {
      number_.notify_all();
    }
    TakeParts();
    for (uint32_t left = left_.load(std::memory_order_acquire); left != 0;) left = AwaitChange(left_, left);
  }

 private:
  void Work() {
    in_region = true;
    for (uint32_t seen = 0; !stop_.load(std::memory_order_relaxed);) {
      seen = AwaitChange(number_, seen);
      TakeParts();
    }
  }

  void TakeParts() {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (true) {
      const auto parts = static_cast<int64_t>(ticket >> 16 & 0xFFFF), part = static_cast<int64_t>(ticket & 0xFFFF);
      if (part >= parts) return;
      if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acquire)) continue;
      const Region& r = region_;
      const int64_t begin = std::min(r.n, r.chunks * part / parts * r.grain);
      const int64_t end = std::min(r.n, r.chunks * (part + 1) / parts * r.grain);
      if (begin < end) r.f(r.context, begin, end, static_cast<int>(part));
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
      ticket = ticket_.load(std::memory_order_acquire);
    }
  }

  const uint32_t born_;
  std::vector<std::thread> threads_;
  Region region_{};
  std::atomic<bool> stop_{false};
  // Apart from each other: all but `region_` is written while others look.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> number_{0};
  alignas(64) std::atomic<uint32_t> left_{0};
};

Team::Team(int threads, std::vector<int> cores) : threads_(std::clamp(threads, 1, 0xFFFF)), cores_(std::move(cores)) {}

Team::~Team() {
  // Workers of the parent process cannot be ended, only forgotten.
  if (workers_ != nullptr && !workers_->OfThisProcess()) (void)workers_.release();
}

void Team::Enter() {
  const auto self = static_cast<uint64_t>(pthread_self());
  if (self == led_by_) return;
  led_by_ = self;
  // The leader is the caller's thread: its affinity is the caller's business unless the team spans several threads.
  if (!cores_.empty() && threads_ > 1) PinSelf(cores_[0]);
}

void Team::Run(int64_t n, int64_t grain, void (*f)(void*, int64_t, int64_t, int), void* context) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  const int64_t chunks = (n - 1) / grain + 1;
  const int parts = static_cast<int>(std::min<int64_t>(threads_, chunks));
  if (parts == 1 || in_region) return f(context, 0, n, 0);
  if (workers_ == nullptr || !workers_->OfThisProcess()) {
    WatchForks();
    (void)workers_.release();
    workers_ = std::make_unique<Workers>(threads_ - 1, cores_);
  }
  widest = std::max(widest, parts);
  in_region = true;
  workers_->Run({f, context, n, grain, chunks}, parts);
  in_region = false;
}

}  // namespace tenon::hw
