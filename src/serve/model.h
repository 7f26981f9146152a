// One loaded version of a model: its queue, and instances that take from it, each with a session on its own cores.
#ifndef TENON_SERVE_MODEL_H_
#define TENON_SERVE_MODEL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hw/thread_groups.h"
#include "serve/answer_order.h"
#include "serve/core_gate.h"
#include "serve/layout.h"
#include "serve/metrics.h"
#include "serve/queue.h"

namespace tenon::serve {

/// What a model runs on.
struct Place {
  std::vector<int> cores;          ///< shared out among the instances, disjoint
  bool pin = true;
  uint64_t memory_limit = 0;       ///< bytes for all instances together; 0: no limit
  std::shared_ptr<CoreGate> gate;  ///< of the cores
  TimeShare* share = nullptr;      ///< of the model's group; the gate's
  std::shared_ptr<hw::ThreadGroup> threads;   ///< that its threads enter; null: none
};

class Model {
 public:
  /// Opens and warms all instances. `file` is the model of this version.
  static Result<std::shared_ptr<Model>> Load(const ModelConfig& config, const std::string& version, const std::string& file,
                                             const ModelOpener& open, const Place& place, std::shared_ptr<Metrics> metrics);
  /// Answers what is queued, then ends. Never called by one of its own threads.
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Accepts or answers. The request has been counted as accepted; null when it is answered already.
  ItemPtr Submit(InferRequest request, std::function<void(InferResponse)> done, TimePoint arrival);
  void Cancel(const ItemPtr& item);
  /// Answers queued requests whose deadline has passed.
  void Expire(TimePoint now);
  /// Gives arenas back when nothing ran for `idle`.
  void TrimIdle(TimePoint now, Duration idle);

  /// Memory is short: until this is lifted only as many requests are taken as there are instances.
  void SetThrottled(bool throttled) { throttled_.store(throttled, std::memory_order_relaxed); }

  const Place& place() const { return place_; }
  const ModelConfig& config() const { return config_; }
  const std::string& version() const { return version_; }
  const std::string& file() const { return file_; }
  const Signature& signature() const { return layout_.requests(); }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// What is worth knowing of it beside its state; mostly empty.
  std::string Remark() const;
  Metrics& metrics() { return *metrics_; }
  size_t queued() const;
  size_t in_flight() const;
  uint64_t memory_bytes() const { return memory_.load(std::memory_order_relaxed); }
  int threads_per_instance() const { return static_cast<int>(instances_[0]->cores.size()); }
  int instances() const { return static_cast<int>(instances_.size()); }

 private:
  struct Instance {
    std::vector<int> cores;
    std::unique_ptr<Session> session;
    std::vector<std::vector<char>> buffers;   // of joined inputs
    std::atomic<uint64_t> charged{0};
    bool trimmed = false;
    Running running;                          // guarded by mutex_
    std::thread thread;
  };

  Model(const ModelConfig& config, std::string version, std::string file, const Place& place, std::shared_ptr<Metrics> metrics);
  bool IsEnsemble() const { return !config_.ensemble.empty(); }
  // No more instances than cores: their threads never outnumber the cores. Those of an ensemble wait for other models, and take
  // a core for each of their own steps only.
  int InstanceCount() const {
    const int cores = static_cast<int>(place_.cores.size());
    if (IsEnsemble()) return config_.instances > 1 ? config_.instances : 2 * cores;
    return std::clamp(config_.instances, 1, cores);
  }
  Status Start(const ModelOpener& open);
  Status OpenInstance(Instance& instance, const ModelOpener& open);
  Status SettleBatching();
  void Work(Instance& instance);
  void RunBatch(Instance& instance, Batch& batch);
  void RunApart(Instance& instance, Batch& batch);
  void Settle(Instance& instance, Batch& batch);
  std::vector<InferResponse> PartOutputs(const Batch& batch, const std::vector<HostTensor>& outputs) const;
  void Fail(const Instance& instance, const Batch& batch, const Status& status, InferTimes times, TimePoint taken);
  void Answer(const ItemPtr& item, InferResponse response);
  void Send(Item& item, InferResponse response);
  const QueueLimits& LimitsOf(uint32_t priority) const;
  void SettleSchedule(Item* item) const;
  Status SettleFit(const std::vector<HostTensor>& inputs, Fit* fit) const;
  InferResponse Refusal(const Item& item, Outcome outcome, std::string message) const;
  /// Empty: `item` was queued. Else why it is refused.
  std::string Enqueue(const ItemPtr& item, Duration* wait);
  InferResponse Overload(const Item& item, Duration wait, std::string why) const;
  std::vector<ItemPtr> TakeExpired(TimePoint now);  // with mutex_ held
  void AnswerExpired(const std::vector<ItemPtr>& expired);
  void Charge(Instance& instance);

  ModelConfig config_;
  std::string version_;
  std::string file_;
  Place place_;
  std::shared_ptr<Metrics> metrics_;
  Layout layout_;
  std::map<std::string, std::string> metadata_;
  std::string precision_;
  std::vector<std::unique_ptr<Instance>> instances_;
  AnswerOrder order_;
  std::atomic<uint64_t> memory_{0};
  std::atomic<bool> throttled_{false};

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::unique_ptr<BatchQueue> queue_;
  size_t running_ = 0;  // items
  bool stopping_ = false;
  TimePoint last_run_{};
  bool trim_ = false;
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_MODEL_H_
