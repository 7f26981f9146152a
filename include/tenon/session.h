// Running compiled models: Session = artifact + partition (cores, memory budget).
#ifndef TENON_SESSION_H_
#define TENON_SESSION_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/status.h"
#include "tenon/types.h"

namespace tenon {

/// A tensor at the border of the library: dense, row-major, innermost extent last. Sub-byte types are packed low bits first.
struct HostTensor {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<int64_t> shape;
  const void* data = nullptr;             ///< not owned unless `owner` is set; unused for kString
  size_t bytes = 0;                       ///< size of `data`; must be that of dtype and shape
  std::vector<std::string> strings;       ///< elements of a kString tensor
  bool is_sequence = false;               ///< a sequence (or optional) of `sequence`
  std::vector<HostTensor> sequence;
  std::shared_ptr<const void> owner;      ///< keeps `data` alive when set
};

/// What a model takes or gives.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kUndefined;
  bool is_sequence = false;
  bool has_rank = false;
  std::vector<std::string> dims;          ///< "3", a symbol "n", or an expression "2*n+1"
};

struct SessionOptions {
  int threads = 0;                        ///< 0: as many as the process may use (affinity mask and cgroup quota)
  std::vector<int> cores;                 ///< pin to these logical CPUs; empty: not pinned
  uint64_t memory_limit = 0;              ///< bytes for weights, packed weights, arena, scratch and outputs; 0: no limit
  std::string isa;                        ///< instruction set level ("avx2", ...); empty: TENON_ISA, else all the CPU has
  int max_cached_shapes = 16;             ///< plans kept for different input shapes; the least recently used goes first
};

/// Asked between two operators; a run stops within one operator with kCancelled.
class CancelToken {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  void Reset() { cancelled_.store(false, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

/// An operand of an executed operator.
struct OperandRecord {
  DType dtype = DType::kUndefined;
  std::vector<int64_t> shape;
};

/// What an executed operator had to do, and how.
struct StepDetails {
  std::vector<OperandRecord> inputs;      ///< absent ones are kUndefined; sequences too
  std::vector<OperandRecord> outputs;
  double flops = 0;                       ///< arithmetic operations, a multiply-add being two
  double bytes = 0;                       ///< every operand read once and every result written once
  DType product = DType::kUndefined;      ///< type that products multiply in; kUndefined: an operator without products
  int threads = 1;                        ///< most threads that worked on it at one time
  bool dynamic = false;                   ///< its shapes depend on data
};

/// One executed operator, for profilers. Times in nanoseconds.
struct StepRecord {
  std::string_view name;
  std::string_view op;
  std::string_view kernel;
  uint64_t start_ns;
  uint64_t duration_ns;
  std::string shapes;                     ///< "1x3x48x320,32x3x3x3->1x32x24x160"
  std::vector<HostTensor> outputs;        ///< only when asked for; memory of the session, valid during the call
  const void* step = nullptr;             ///< tells operators of one session apart
  const StepDetails* details = nullptr;   ///< only when asked for; valid during the call
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  /// True: records carry the operator's outputs, named as in the compiled model. (Inputs may be overwritten by then.)
  virtual bool WantsValues() const { return false; }
  /// False: `shapes` stays empty, and a record costs next to nothing.
  virtual bool WantsShapes() const { return true; }
  /// True: records carry `details`.
  virtual bool WantsDetails() const { return false; }
  /// True: If, Loop, Scan and SequenceMap are recorded as well, after the operators of their bodies and with these in their time.
  virtual bool WantsControl() const { return false; }
  /// Right before an operator runs that has no bodies.
  virtual void BeforeStep() {}
  virtual void OnStep(const StepRecord& record) = 0;
};

struct RunOptions {
  const CancelToken* cancel = nullptr;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  StepObserver* observer = nullptr;
};

struct MemoryReport {
  uint64_t weights = 0;  ///< bytes of constants in the artifact
  uint64_t packed = 0;  ///< bytes of weights packed for this machine
  uint64_t arena_before = 0;  ///< activations of the last shape, were nothing reused
  uint64_t arena = 0;  ///< activations of the last shape, with reuse
  uint64_t scratch = 0;
  uint64_t outputs = 0;
  uint64_t charged = 0;  ///< all bytes now charged to the session
  int cached_shapes = 0;
};

/// One operator of the compiled model and the kernel that serves it.
struct KernelReport {
  std::string node;
  std::string op;
  std::string kernel;  ///< empty when the executor runs it itself (views, control flow)
  std::string precision;  ///< type of the weights where the operator has any, else of the result
  std::vector<std::pair<std::string, std::string>> refused;  ///< kernels before it and why they declined
  std::vector<std::string> alternatives;  ///< kernels after it that would serve too, reference left out
};

/// Not thread-safe: one run at a time. Open several sessions for several threads; they share the artifact's pages.
class Session {
 public:
  /// Opens a compiled `.tenon` file. kBadInput: damaged file; kResourceLimit: over the memory limit.
  static Result<std::unique_ptr<Session>> Open(const std::string& path, const SessionOptions& options = {});

  virtual ~Session() = default;
  virtual const std::vector<TensorInfo>& inputs() const = 0;
  virtual const std::vector<TensorInfo>& outputs() const = 0;
  virtual const std::map<std::string, std::string>& metadata() const = 0;

  /// Runs once. `inputs` by name, any order; inputs that carry state may be left out. Returns the outputs in the model's order;
  /// their memory belongs to the session and stays valid until the next Run, Trim or destruction (set `owner` by Copy).
  /// kUsage: unknown, missing or doubled name, wrong type or shape (the message names the symbol that disagrees).
  virtual Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, const RunOptions& options = {}) = 0;

  /// Runs once with all inputs in the model's order and results written into caller's memory: `outputs[i].data` (bytes as
  /// given) receives output i. Allocates nothing once the shapes have been seen.
  virtual Status RunInto(const HostTensor* inputs, size_t num_inputs, HostTensor* outputs, size_t num_outputs,
                         const RunOptions& options = {}) = 0;

  /// From now on output `output` of one run is input `input` of the next, unless a caller feeds it; the first run needs it fed.
  virtual Status CarryState(const std::string& output, const std::string& input) = 0;
  virtual void ResetState() = 0;

  /// Gives back memory not needed for the weights: arena, cached plans, outputs.
  virtual void Trim() = 0;
  virtual MemoryReport memory() const = 0;
  virtual std::vector<KernelReport> kernels() const = 0;
  virtual int threads() const = 0;
};

/// A copy of `tensor` that owns its memory.
HostTensor Copy(const HostTensor& tensor);

}  // namespace tenon

#endif  // TENON_SESSION_H_
