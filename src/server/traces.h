// Traces of requests: when each part of serving one began and ended, and its tensors, in a file as Triton writes it.
#ifndef TENON_SERVER_TRACES_H_
#define TENON_SERVER_TRACES_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tenon/server.h"

namespace tenon::server {

/// Steady time, as traces have it.
uint64_t TraceTime(std::chrono::steady_clock::time_point time);
uint64_t TraceTime();

/// What traces hold.
struct TraceLevels {
  bool timestamps = false, tensors = false;
  bool any() const { return timestamps || tensors; }
};

struct Trace {
  TraceLevels levels;
  std::string model, version;
  std::vector<std::pair<const char*, uint64_t>> timestamps;   ///< name, ns
  std::vector<std::string> tensors;                           ///< as JSON, without the braces around them

  void Add(const char* name, uint64_t ns) { timestamps.emplace_back(name, ns); }
  /// Everything between REQUEST_START, which was at `begin`, and REQUEST_END, which is now.
  void AddRequest(uint64_t begin, const InferResponse& response);
  /// Names, types, shapes and elements, where they are asked for. `activity`: kQueueInput or kBackendOutput.
  void AddTensors(const char* activity, const std::vector<HostTensor>& all);

  static constexpr const char* kQueueInput = "TENSOR_QUEUE_INPUT";
  static constexpr const char* kBackendOutput = "TENSOR_BACKEND_OUTPUT";
  static constexpr int64_t kMostElements = 1 << 16;   ///< a tensor of more has no data in a trace
};

/// Settings by the names of v2/trace/setting. Nothing for a value: back to the default, or to the server's.
using TraceValues = std::map<std::string, std::vector<std::string>>;
using TraceChanges = std::map<std::string, std::optional<std::vector<std::string>>>;

class Traces {
 public:
  ~Traces();
  /// Where traces go: FILE, or FILE.0, FILE.1, ... when `log_frequency` says how many go into each. Begun anew by the first
  /// trace.
  void SetFile(std::string path) { path_ = std::move(path); }

  /// A trace for this request when it is one to be traced.
  std::shared_ptr<Trace> Begin(const std::string& model) {
    return active_.load(std::memory_order_relaxed) ? Sample(model) : nullptr;
  }
  /// kResourceLimit: the file cannot be written; nothing is traced from then on.
  Status Write(const Trace& trace);

  /// Of the server, or of one model.
  TraceValues Read(const std::string& model = "") const;
  /// All or nothing. kUsage names the setting, what was given and what is allowed.
  Status Update(const std::string& model, const TraceChanges& changes);

 private:
  struct Settings {
    std::optional<TraceLevels> levels;
    std::optional<uint64_t> rate;          // one request of so many
    std::optional<int64_t> count;          // traces still to be made; < 0: no end
    uint64_t seen = 0;
  };
  std::shared_ptr<Trace> Sample(const std::string& model);
  Status Change(const std::string& name, const std::optional<std::vector<std::string>>& value, bool of_server, Settings* s,
                uint64_t* frequency) const;
  Status Append(const std::string& text);
  void SettleActive();

  std::atomic<bool> active_{false};
  mutable std::mutex mutex_;
  std::string path_;
  Settings server_{TraceLevels{}, 1000, -1};
  std::map<std::string, Settings> models_;
  uint64_t frequency_ = 0;
  int fd_ = -1;
  uint64_t end_ = 0;                       // of the file before its closing bracket
  uint64_t in_file_ = 0;
  uint64_t files_ = 0;
  uint64_t next_id_ = 1;
};

}  // namespace tenon::server

#endif  // TENON_SERVER_TRACES_H_
