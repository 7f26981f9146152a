// The queue of one model and the decision which requests run next, together. Holds no lock and reads no clock: the caller does
// both.
#ifndef TENON_SERVE_QUEUE_H_
#define TENON_SERVE_QUEUE_H_

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/layout.h"
#include "tenon/server.h"

namespace tenon::serve {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// What requests come to that run together.
class RunSize {
 public:
  void Add(const Fit& fit);
  RunSize With(const Fit& fit) const;
  int64_t rows() const { return rows_; }
  /// Those of the requests.
  int64_t tokens() const { return tokens_; }
  /// Those that run: each extent is the largest of all requests.
  int64_t padded_tokens() const;

 private:
  int64_t rows_ = 0, tokens_ = 0;
  std::vector<int64_t> extents_;
};

struct Batch;

/// A request on its way. Fields below `fit` are guarded by the lock of its model.
struct Item {
  InferRequest request;
  std::function<void(InferResponse)> done;
  TimePoint arrival{};
  TimePoint deadline = TimePoint::max();   ///< refused from then on
  TimePoint due = TimePoint::max();        ///< from then on behind the others of its priority
  uint32_t priority = 0;
  Fit fit;
  enum class State { kQueued, kRunning, kDone } state = State::kQueued;
  bool cancelled = false;
  Batch* batch = nullptr;          ///< while running
  std::optional<uint64_t> place;   ///< among the answers; without one it is answered when it is ready
};
using ItemPtr = std::shared_ptr<Item>;

/// Requests that run as one.
struct Batch {
  std::vector<ItemPtr> items;
  RunSize size;
  size_t wanted = 0;               ///< items that nobody has cancelled
  Duration waited{0};              ///< for the cores
  CancelToken cancel;
};

/// What an instance runs.
struct Running {
  int64_t rows = 0;                ///< 0: nothing
  TimePoint since{};
};

struct QueuePolicy {
  int64_t max_rows = 1;            ///< most rows of one run; 1: requests never join
  int64_t max_tokens = 0;          ///< most tokens of a run that several requests share, padding included; 0: no limit
  double max_padding = 0;          ///< largest share of them that no request has
  std::vector<int> preferred;      ///< ascending
  Duration max_delay{0};
  size_t max_queue = 256;                  ///< requests of all priorities but those of `own_queues`
  std::map<uint32_t, size_t> own_queues;   ///< the same of priorities that are counted by themselves
};

class BatchQueue {
 public:
  explicit BatchQueue(QueuePolicy policy) : policy_(std::move(policy)) {}

  /// False: the queue is full. `others`: requests of this model that were in flight when this one arrived.
  bool Push(ItemPtr item, size_t others);
  /// Requests of this priority that may wait, with those that are counted together with it.
  size_t Capacity(uint32_t priority) const;

  struct Decision {
    std::vector<ItemPtr> items;                ///< to run now
    TimePoint wait_until = TimePoint::max();   ///< when to ask again if nothing runs; max: when something arrives
  };
  /// What an idle instance should do now.
  Decision Take(TimePoint now);

  /// Takes out all whose deadline has passed.
  std::vector<ItemPtr> TakeExpired(TimePoint now);
  /// Takes `item` out; false when it is not queued.
  bool Remove(const Item* item);

  /// A run of `rows` rows took this long, from its choice to its answers, after it had waited for its cores.
  void OnServed(int64_t rows, Duration duration, Duration waited = {});
  /// A run of `rows` rows was stopped after so long: the whole takes longer.
  void OnStopped(int64_t rows, Duration duration);

  size_t size() const { return size_; }
  /// When the next deadline passes.
  TimePoint next_deadline() const;

  struct Estimate {
    Duration wait{0};              ///< for those ahead
    Duration run{0};               ///< from then to the answer
  };
  /// For a request that comes now, by the times of the runs so far and how much they differ. No wait when an instance is idle;
  /// nothing when nothing is known.
  Estimate Expect(const Item& item, const std::vector<Running>& instances, TimePoint now) const;

 private:
  bool WorthWaiting(const RunSize& run, TimePoint now, TimePoint head) const;
  bool MayJoin(const Item& item, const Item& head, const RunSize& run) const;
  bool IsFull(const RunSize& run) const;
  int64_t Target() const { return policy_.preferred.empty() ? policy_.max_rows : policy_.preferred.back(); }
  size_t CutToPreferred(const std::vector<ItemPtr>& items) const;
  double ServiceSeconds(int64_t rows) const;
  double RunSeconds(int64_t rows) const;
  void Forget(const Item& item);
  size_t Beside(uint32_t priority) const;
  int64_t Share(const Item& item) const;

  QueuePolicy policy_;
  std::map<uint32_t, std::deque<ItemPtr>> levels_;   // by priority, lowest number first
  std::map<uint32_t, int64_t> waiting_;              // sums of Share by priority
  size_t size_ = 0;
  TimePoint last_arrival_{};
  double gap_s_ = -1;          // running mean of times between arrivals; < 0: unknown
  double overlap_ = 0;         // running share of arrivals that found others in flight
  struct ServiceTime {                    // running means, in seconds
    double mean = 0;
    double deviation = 0;                 // from the mean, absolute
  };
  std::map<int64_t, ServiceTime> service_;   // by rows, 1 where requests never join
  double cores_s_ = 0;         // running mean of waits for the cores before a run
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_QUEUE_H_
