// The server in one process; see tenon/server.h. server.cc: requests, loading, housekeeping. server_ensembles.cc: models of
// models. server_devices.cc: groups and memory.
#ifndef TENON_SERVE_LOCAL_SERVER_H_
#define TENON_SERVE_LOCAL_SERVER_H_

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/groups.h"
#include "serve/model.h"
#include "serve/repository.h"

namespace tenon::serve {

/// A model by name: where it lies, how it is served, what is loaded of it.
struct Entry {
  std::string path;
  ModelConfig config;                       // without what lies beside the model
  ModelConfig active;                       // of what is loaded
  bool configured = false;                  // by the caller; else from the repository's folder
  std::map<int64_t, std::shared_ptr<Model>> loaded;
  std::string state = "UNAVAILABLE";
  std::string reason;
  std::string stamp;                        // of the files when it was loaded last
  bool incomplete = false;                  // an ensemble that failed to load: perhaps for want of a model that comes later
  std::shared_ptr<std::mutex> loading = std::make_shared<std::mutex>();   // one load of a model at a time
};

class LocalServer final : public InferenceServer {
 public:
  explicit LocalServer(ServerOptions options);
  ~LocalServer() override;

  Status Start() override;
  std::shared_ptr<InferTicket> Infer(InferRequest request, std::function<void(InferResponse)> done) override;
  void CountRefused(const std::string& model, Outcome outcome) override;
  Status Load(const std::string& name, const std::optional<ModelConfig>& config) override;
  Status Unload(const std::string& name) override;
  std::vector<ModelState> Index() const override;
  bool ModelReady(const std::string& name, const std::string& version) const override {
    return Find(name, version).model != nullptr;
  }
  bool Ready() const override { return started_ && !draining_; }
  Result<ModelDescription> Describe(const std::string& name, const std::string& version) const override;
  std::vector<ModelStatistics> Statistics(const std::string& name, const std::string& version) const override;
  uint64_t memory_used() const override;
  uint64_t memory_limit() const override { return options_.memory_limit; }
  int cores() const override { return static_cast<int>(groups_.cores().size()); }
  std::vector<DeviceState> Devices() const override;
  Status SetGroup(const DeviceGroup& group) override;
  Status RemoveGroup(const std::string& name) override;
  bool Drain(std::chrono::milliseconds limit) override;

 private:
  struct Found {
    std::shared_ptr<Model> model;
    Outcome outcome = Outcome::kNotFound;
    std::string message;
  };
  Found Find(const std::string& name, const std::string& version) const;
  std::shared_ptr<InferTicket> Hand(InferRequest request, Found found, std::function<void(InferResponse)> done,
                                    TimePoint arrival);
  Result<FoundModel> Settle(const std::string& name, const std::string& path, bool own, ModelConfig* config) const;
  std::set<std::string> ModelsOf(const std::string& name) const;
  Status CheckCycle(const std::string& name, const ModelConfig& config) const;
  ModelOpener EnsembleOpener(const Place& place);
  Status LoadInOrder(std::vector<std::pair<std::string, bool>> wanted);
  std::shared_ptr<Metrics> MetricsOf(const std::string& name, const std::string& version);
  Status ScanFolder();
  Status LoadEntry(const std::string& name, const std::optional<ModelConfig>& config);
  Result<std::map<int64_t, std::shared_ptr<Model>>> OpenVersions(const FoundModel& found, const ModelConfig& config);
  Result<Place> PlaceFor(const ModelConfig& config, size_t versions) const;
  Status CheckMemory(const std::vector<std::pair<std::string, bool>>& wanted);
  Status Resettle();
  void Throttle();
  void Retire(std::map<int64_t, std::shared_ptr<Model>> models);
  void KeepHouse();
  void Reap();
  void Poll();
  std::vector<std::shared_ptr<Model>> Loaded() const;

  /// A group's limit of CPU time.
  struct Quota {
    std::shared_ptr<hw::ThreadGroup> threads;   // null: nobody keeps it
    std::shared_ptr<CoreGate> gate;             // its own: the kernel shares out the cores between groups
    size_t first = 0;                           // of the group's cores
    std::string means;
  };
  void SetQuota(const DeviceGroup& group);                          // with mutex_ held
  const Quota* QuotaOf(const std::string& group) const;             // null: none that anybody keeps
  std::vector<int> CoresOf(const DeviceGroup& group) const;
  std::string QuotaMeans(const std::string& group) const;

  ServerOptions options_;
  hw::ThreadGroups thread_groups_;
  std::map<std::string, Quota> quotas_;            // by group; guarded by mutex_
  Groups groups_;                                  // guarded by mutex_
  std::shared_ptr<CoreGate> gate_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, Entry> models_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Metrics>> metrics_;
  std::vector<std::shared_ptr<Model>> retired_;   // replaced or unloaded, still answering
  std::map<std::string, uint64_t> promised_;       // bytes that models have at most, as admission shared them out
  std::multiset<std::string> going_;               // names of models that still hold memory though nobody can ask them
  std::condition_variable_any tick_;
  bool stopping_ = false;
  std::atomic<bool> started_{false};
  std::atomic<bool> draining_{false};
  std::thread housekeeper_;
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_LOCAL_SERVER_H_
