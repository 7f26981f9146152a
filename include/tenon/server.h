// Serving models in one process: a repository of models, queues, batches, deadlines. No sockets here: `tenon serve` puts HTTP and
// gRPC in front of it, and a program that links libtenon may call it directly.
#ifndef TENON_SERVER_H_
#define TENON_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/session.h"
#include "tenon/status.h"

namespace tenon {

/// How a request ended. Each is counted once: accepted = ok + cancelled + sum of the others + in flight.
enum class Outcome : int {
  kOk = 0,
  kCancelled,  ///< by the caller or because it vanished
  kBadRequest,  ///< names, types, shapes or values that the model does not take
  kNotFound,  ///< no such model or version
  kNotReady,  ///< known, but not loaded; or the server is draining
  kOverload,  ///< the queue is full or memory is short; nothing was done; see `retry_after_s`
  kDeadline,  ///< the time given was over
  kTooLarge,  ///< over a limit on sizes
  kUnsupported,  ///< valid, but not served here
  kMemory,  ///< the model's memory limit does not hold this request
  kInternal,
};
inline constexpr int kOutcomes = 11;

struct InferRequest {
  std::string model;
  std::string version;  ///< empty: the newest that is loaded
  std::string id;
  std::vector<HostTensor> inputs;  ///< memory must stay valid until the answer: set `owner`
  std::vector<std::string> outputs;  ///< names in the order wanted; empty: all
  uint32_t priority = 0;  ///< 1 is served first; 0: the model's default
  std::chrono::microseconds timeout{0};  ///< from arrival to the end of the run; 0: the model's default
  /// Asked before an answer counts as ok, on the thread that ran it: a failure (results too large to send) becomes the outcome.
  std::function<Status(const std::vector<HostTensor>&)> check_outputs;
};

struct InferTimes {  ///< nanoseconds; a request of a batch carries those of the batch
  uint64_t queue = 0, input = 0, infer = 0, output = 0;
};

struct InferResponse {
  Outcome outcome = Outcome::kOk;
  std::string message;  ///< why not kOk: what; where; what is allowed
  int retry_after_s = 0;
  std::string model, version, id;
  std::vector<HostTensor> outputs;  ///< own their memory
  InferTimes times;
};

/// Cancels a request that was handed in: queued, it leaves the queue at once; running, the run stops within one operator. Any
/// thread.
class InferTicket {
 public:
  virtual ~InferTicket() = default;
  virtual void Cancel() = 0;
};

/// A part of an ensemble: a model of the server, or a built-in step.
struct EnsemblePart {
  std::string model;  ///< empty: a built-in step
  std::string version;  ///< of the model; empty: the newest
  std::string step;  ///< kind of the built-in step (docs/serving.md)
  std::map<std::string, std::string> inputs;  ///< input of the part: value of the ensemble
  std::map<std::string, std::string> outputs;  ///< output of the part: value of the ensemble
  std::map<std::string, std::string> parameters;  ///< of a built-in step
};

/// Models and steps that answer one request together: values that nobody makes are inputs of the ensemble.
struct Ensemble {
  std::vector<EnsemblePart> parts;  ///< in any order
  std::vector<std::string> outputs;  ///< values that are answered; empty: those that no part takes
  bool empty() const { return parts.empty(); }
};

/// An input of rows that vary in shape and are not padded: in a run they lie one after the other in one dimension, as the model
/// takes it. (`allow_ragged_batch` of config.pbtxt)
struct RaggedInput {
  std::string name;
  std::vector<int64_t> dims;  ///< of a row of a request; -1: any extent
};

/// An input that no request brings: it tells the model how the requests of a run lie in the ragged input `source`.
struct BatchInput {
  enum class Kind : int {  ///< with the numbers of config.pbtxt; requests r, in their order
    kElementCount = 0,  ///< [requests]: elements of each
    kAccumulatedElementCount,  ///< [requests]: elements up to the end of each
    kAccumulatedElementCountWithZero,  ///< [requests + 1]: 0, then the same
    kMaxElementCountAsShape,  ///< [elements of the largest], zeros: only the extent says something
    kItemShape,  ///< [rows, rank]: the shape of each row of each request
    kItemShapeFlatten,  ///< [rows * rank]: the same in one dimension
  };
  Kind kind = Kind::kElementCount;
  std::vector<std::string> targets;  ///< inputs of the model
  std::string source;
  DType dtype = DType::kUndefined;  ///< that of the targets: int32, int64 or float32
};

/// Outputs whose elements lie as those of the ragged input `source`: each request gets as many as its input tells.
/// (BATCH_SCATTER_WITH_INPUT_SHAPE)
struct BatchOutput {
  std::vector<std::string> targets;
  std::string source;
  std::vector<int64_t> dims;  ///< of a row; -1: the extent that `source` has there
};

/// Limits of requests that wait.
struct QueueLimits {
  size_t max_queue = 256;  ///< more are refused at once
  std::chrono::microseconds default_timeout{0};  ///< from arrival to the end of the run; 0: none
  bool allow_timeout_override = true;  ///< a request may ask for less
  bool delay_late = false;  ///< one whose time is over waits behind the others of its priority, instead of being refused
};

/// An input of a run before a model is offered.
struct WarmUpInput {
  enum class Data { kZeros, kRandom, kFile };
  DType dtype = DType::kUndefined;
  std::vector<int64_t> dims;  ///< of a row, where requests join
  Data data = Data::kZeros;
  std::string file;  ///< of kFile: the elements of a row as they lie in memory; before each string its length, 4 bytes
};

struct WarmUpRun {
  std::string name;
  int rows = 1;  ///< all alike
  int count = 1;
  std::map<std::string, WarmUpInput> inputs;
};

/// How one model is served. What is not set follows from the model.
struct ModelConfig {
  std::string name;
  std::string path;  ///< model file, or folder of numbered versions that hold model.{tenon,onnx}
  std::optional<int> max_batch;  ///< rows of the leading extent that may run together; 0: requests never join
  std::vector<int> preferred_batch;  ///< ascending; runs take these numbers of rows where they can
  /// Most tokens of a run that several requests share, padding included: rows times each extent that the model leaves open, the
  /// leading one aside. 0: no limit
  int64_t max_batch_tokens = 0;
  /// Inputs that requests of one run may have in different extents, and the value behind their ends; results are cut back.
  std::map<std::string, double> pad;
  double max_padding = 0.1;  ///< largest share of a run's tokens that may be padding
  std::vector<RaggedInput> ragged_inputs;
  std::vector<BatchInput> batch_inputs;
  std::vector<BatchOutput> batch_outputs;
  std::chrono::microseconds max_delay{0};  ///< longest wait for company; a request that is alone never waits
  int instances = 1;  ///< sessions side by side, on disjoint cores
  int threads = 0;  ///< of one instance; 0: the cores of the group divided by `instances`
  std::string group;  ///< device or resource group; empty: all that the process may use
  uint64_t memory_limit = 0;  ///< bytes of all instances together; 0: what the group has
  QueueLimits queue;  ///< of all requests but those of `priority_queues`
  uint32_t priority_levels = 0;  ///< 0: all alike
  uint32_t default_priority = 0;  ///< 0: the last
  std::map<uint32_t, QueueLimits> priority_queues;  ///< of priorities that have limits of their own
  bool preserve_ordering = false;  ///< requests are answered in the order in which they came
  std::vector<WarmUpRun>
      warm_up;  ///< runs of each instance before the model is offered, beside those that follow from its shapes
  int versions_latest = 1;  ///< how many of the newest versions are served; 0: all, or those of `versions`
  std::vector<int64_t> versions;
  std::string precision;  ///< as CompileOptions has it, for whoever opens the model; empty: theirs to say
  std::map<std::string, std::string> parameters;  ///< kept for clients that ask
  std::vector<std::string> ignored;  ///< settings that mean nothing here; kept to be told
  Ensemble ensemble;  ///< instead of a model's file; `instances` requests at a time, 1: twice the cores
};

struct ModelState {
  std::string name, version;
  std::string state;  ///< READY, LOADING, UNLOADING, UNAVAILABLE
  std::string reason;  ///< of READY: what is worth knowing, as that it computes in bf16
  bool part = false;  ///< of an ensemble that is loaded
};

/// Sum and number of durations.
struct DurationSum {
  uint64_t count = 0, ns = 0;
  void Add(uint64_t duration_ns) { ++count, ns += duration_ns; }
};

struct BatchStatistics {
  uint64_t rows = 0;
  DurationSum input, infer, output;
};

struct ModelStatistics {
  std::string name, version;
  uint64_t accepted = 0;
  uint64_t in_flight = 0;  ///< queued and running
  uint64_t queued = 0;
  uint64_t outcomes[kOutcomes] = {};  ///< by Outcome
  uint64_t rows = 0;  ///< that were answered
  uint64_t tokens = 0;  ///< that were answered, as `max_batch_tokens` counts them
  uint64_t padding = 0;  ///< tokens that ran and belonged to no request
  uint64_t runs = 0;
  uint64_t last_ms = 0;  ///< Unix time of the last request that ran
  DurationSum success, fail, queue, input, infer, output;
  DurationSum cancel;  ///< part of `fail`
  std::vector<BatchStatistics> batches;
  std::vector<uint64_t> latency_buckets;  ///< requests by kLatencyBucketsUs, the last beyond the last edge
  uint64_t memory_bytes = 0;  ///< charged to its sessions
  int instances = 0;
  int threads = 0;  ///< of one instance
};

inline constexpr uint64_t kLatencyBucketsUs[] = {100,   200,    500,    1000,   2000,    5000,    10000,   20000,
                                                 50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000};

struct ModelDescription {
  std::string name, version;
  std::vector<std::string> versions;  ///< all that are loaded
  ModelConfig config;  ///< max_batch settled
  std::vector<TensorInfo> inputs, outputs;
  std::map<std::string, std::string> metadata;
};

/// Opens a file of a model on the given cores and memory: OpenModel, or Session::Open where there is no compiler.
using ModelOpener = std::function<Result<std::unique_ptr<Session>>(const std::string& path, const ModelConfig& config,
                                                                   const SessionOptions& options)>;
/// Settings beside a model: (folder of the model, settings so far). Reads config.pbtxt or tenon.yaml where there is one.
using ConfigReader = std::function<Status(const std::string& folder, ModelConfig* config)>;

/// A resource group: cores and memory that models are placed on by name.
struct DeviceGroup {
  std::string name;
  std::vector<int> cores;  ///< logical CPUs
  uint64_t memory_limit = 0;  ///< bytes; 0: none
  bool exclusive = true;  ///< its cores belong to nobody else; else they are shared run by run
  /// Of the time of cores that it shares: with twice the weight of another group twice the time, while both have requests. 0.001
  /// to 1000.
  double weight = 1;
  /// CPUs that all its runs together get at most, 0.05 and more; 0: no limit. Kept by cgroups where the process may make some;
  /// elsewhere only the weight counts.
  double quota = 0;
};

struct DeviceState {
  DeviceGroup group;  ///< without a name: what no exclusive group owns
  uint64_t memory_used = 0;  ///< bytes charged to its models
  uint64_t memory_promised = 0;  ///< limits of its models together; 0 where there is no limit
  std::vector<std::string> models;
  std::string quota_means;  ///< what keeps a quota: "cgroup v2", "cgroup v1", or "weights", and why no other
};

struct ServerOptions {
  enum class Control { kNone, kPoll, kExplicit };
  std::string repository;  ///< folder of models; may be empty
  std::vector<ModelConfig> models;  ///< beside those of the folder
  Control control = Control::kNone;  ///< kNone: everything once at start; kPoll: changes are followed; kExplicit: on request
  std::vector<std::string> load;  ///< with kExplicit: loaded at start; "*": all
  std::chrono::milliseconds poll_interval{5000};
  std::vector<int> cores;  ///< logical CPUs to use; empty: those of the process
  std::vector<DeviceGroup> groups;
  uint64_t memory_limit = 0;  ///< bytes for everything charged to sessions; 0: no limit
  ModelConfig defaults;  ///< for models without their own settings
  std::chrono::milliseconds idle_trim{30000};  ///< arenas of a model that nobody asks go back to the system; 0: never
  ModelOpener open;  ///< required
  ConfigReader read_config;
};

class InferenceServer {
 public:
  /// Nothing is loaded yet: it can already say that it is alive and not ready.
  static Result<std::unique_ptr<InferenceServer>> Create(ServerOptions options);
  virtual ~InferenceServer() = default;

  /// Loads what the options name and returns when done. A model that cannot be loaded is UNAVAILABLE and the others are served;
  /// the first failure of a model that the options name is returned.
  virtual Status Start() = 0;

  /// Answers through `done` exactly once, on any thread, perhaps before this returns. Null when it has been answered already.
  virtual std::shared_ptr<InferTicket> Infer(InferRequest request, std::function<void(InferResponse)> done) = 0;
  /// Counts a request that was refused before it became an InferRequest.
  virtual void CountRefused(const std::string& model, Outcome outcome) = 0;

  /// (Re)loads and returns when done. The old one serves until the new one is warm; when loading fails it stays. `config`: in
  /// place of the model's settings for this load; with a path also in place of its files, and then the name may be a new one.
  virtual Status Load(const std::string& name, const std::optional<ModelConfig>& config = std::nullopt) = 0;
  /// No new requests; those handed in are answered; then the memory goes back.
  virtual Status Unload(const std::string& name) = 0;
  virtual std::vector<ModelState> Index() const = 0;
  virtual bool ModelReady(const std::string& name, const std::string& version = "") const = 0;
  /// All models loaded (or failed) and not draining.
  virtual bool Ready() const = 0;
  virtual Result<ModelDescription> Describe(const std::string& name, const std::string& version = "") const = 0;
  /// Of one model, or of all. Statistics outlive reloads.
  virtual std::vector<ModelStatistics> Statistics(const std::string& name = "", const std::string& version = "") const = 0;
  virtual std::vector<DeviceState> Devices() const = 0;
  /// Creates or changes a group while requests run: models on changed cores are opened there beside the old, then replace them.
  virtual Status SetGroup(const DeviceGroup& group) = 0;
  /// kUsage: no such group, or models stand on it.
  virtual Status RemoveGroup(const std::string& name) = 0;
  virtual uint64_t memory_used() const = 0;
  virtual uint64_t memory_limit() const = 0;
  virtual int cores() const = 0;

  /// Refuses new requests and waits for those in flight, at most `limit`. True: all were answered.
  virtual bool Drain(std::chrono::milliseconds limit) = 0;
};

}  // namespace tenon

#endif  // TENON_SERVER_H_
