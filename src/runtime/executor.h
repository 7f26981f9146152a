// Runs a prepared program: static steps from a shape plan, late steps by asking their shape rule, control flow through executors
// of its bodies. One run at a time.
#ifndef TENON_RUNTIME_EXECUTOR_H_
#define TENON_RUNTIME_EXECUTOR_H_

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "runtime/late.h"
#include "runtime/shape_plan.h"
#include "tenon/session.h"

namespace tenon::runtime {

/// Memory for activations; grows and shrinks with need, page by page. Charged to the budget.
class Arena {
 public:
  explicit Arena(hw::Budget& budget) : charged_(budget) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  /// At least `bytes`; earlier contents and pointers are lost when it has to move.
  Status Reserve(uint64_t bytes);
  void Free();
  std::byte* data() const { return data_; }
  uint64_t bytes() const { return charged_.bytes(); }

 private:
  hw::Charged charged_;
  std::byte* data_ = nullptr;
};

class Executor {
 public:
  /// `program` outlives the executor and serves no other one: constants that kernels have packed lose their contents.
  static Result<std::unique_ptr<Executor>> Create(const artifact::Program& program, hw::Machine& machine, int max_cached_shapes);

  /// Inputs in program order; the caller has checked types. After success, outputs are at output(i) until the next Run.
  Status Run(std::span<const View> inputs, const RunOptions& options);

  /// Handed to the kernels of the next runs; null: no cache.
  void BindKv(const kernels::KvStep* kv) { kv_ = kv; }

  size_t num_outputs() const { return program_->outputs.size(); }
  const View& output(size_t i) const { return results_[i]; }
  /// True when output i lies in memory of this executor, not in that of an input.
  bool OwnsOutput(size_t i) const { return owned_[i]; }
  /// Output i of the next run is written elsewhere, so that this run's result survives as an input of it.
  void FlipOutput(size_t i) { outputs_[i].flip ^= 1; }
  /// Writes output i of the next run straight to `data` when its size is `bytes`; null: own buffer again.
  void BindOutput(size_t i, void* data, size_t bytes) { outputs_[i].bound = data, outputs_[i].bound_bytes = bytes; }

  /// The shape that output i would have, as planning for `inputs` tells; where it depends on data, or without inputs, the
  /// declared one with 0 for what is no number.
  Shape ShapeWithoutRun(size_t i, std::span<const View> inputs);

  const Prepared& prepared() const { return prepared_; }
  uint64_t packed_bytes() const { return prepared_.packed_bytes; }
  const artifact::Program& program() const { return *program_; }
  /// The plan of the last run; null before the first.
  const ShapePlan* plan() const { return current_; }
  int cached_shapes() const { return static_cast<int>(plans_.size()); }
  uint64_t arena_bytes() const { return arena_.bytes(); }
  uint64_t output_bytes() const;
  /// Gives back arena, plans, output buffers and idle pool memory.
  void Trim();

 private:
  struct OutputBuffer {
    std::unique_ptr<Arena> memory[2];
    int flip = 0;
    void* bound = nullptr;
    size_t bound_bytes = 0;
    std::byte* in_use = nullptr;
  };
  struct LateCache {   // last configuration of a late step
    std::vector<Shape> shapes;
    kernels::Configured configured;
  };
  class LateAllocator;

  Executor(const artifact::Program& program, hw::Machine& machine, int max_cached_shapes);
  Status SelectPlan(std::span<const View> inputs);
  Status ReserveMemory();
  void ApplyPatches(std::span<const View> inputs);
  void ShrinkArenaWhenIdle();
  Status RunSteps(const RunOptions& options);
  Status RunPlanned(size_t index);
  Status RunLate(size_t index);
  Status RunLateKernel(size_t index, std::span<const View> in, std::span<const kernels::ValueInfo> out_infos);
  Status AliasLate(artifact::ValueIndex to, artifact::ValueIndex from, const kernels::ValueInfo& info);
  Status RunControl(size_t index, const RunOptions& options);
  Status RunIf(size_t index, const RunOptions& options);
  Status RunLoop(size_t index, const RunOptions& options);
  Status RunScan(size_t index, const RunOptions& options);
  Status RunSequenceMap(size_t index, const RunOptions& options);
  void ReleaseDead(size_t index);
  void CollectOutputs();
  StepDetails DetailsOf(size_t index) const;
  void Record(size_t index, uint64_t start, const RunOptions& options) const;

  /// Where a value is now; !present() for absent ones.
  View Resolve(artifact::ValueIndex v) const;
  /// Stores a value of the current run.
  void SetLate(artifact::ValueIndex v, Tensor tensor);
  void SetLateSequence(artifact::ValueIndex v, Sequence sequence);
  /// Stores what `body` gave as output `i`, copying only what does not lie in the body's own memory.
  Status TakeBodyOutput(const Executor& body, size_t i, artifact::ValueIndex v);

  const artifact::Program* program_;
  hw::Machine& machine_;
  size_t max_plans_;
  Prepared prepared_;
  std::vector<std::unique_ptr<ShapePlan>> plans_;
  ShapePlan* current_ = nullptr;
  uint64_t clock_ = 0;
  uint64_t recent_peak_ = 0;
  Arena arena_;
  BufferPool pool_;
  std::vector<OutputBuffer> outputs_;
  std::vector<View> results_;
  std::vector<bool> owned_;
  std::span<const View> inputs_;
  const kernels::KvStep* kv_ = nullptr;
  std::deque<LateValue> late_;
  std::vector<LateCache> late_cache_;
  std::vector<std::vector<artifact::ValueIndex>> dies_after_;   // per step: late values whose last reader it is
};

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_EXECUTOR_H_
