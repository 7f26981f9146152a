// What a program becomes for concrete input shapes: every shape that can be known is known, shape arithmetic is done, kernels are
// configured, and activations have their places in the arena. Steps that depend on data beyond that are "late": the executor
// asks their shape rule during the run.
#ifndef TENON_RUNTIME_SHAPE_PLAN_H_
#define TENON_RUNTIME_SHAPE_PLAN_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/memory_plan.h"
#include "runtime/prepared.h"

namespace tenon::runtime {

enum class Place : uint8_t {
  kUnknown,  ///< late: exists only during a run
  kConstant,  ///< in the program or computed by the plan
  kInput,  ///< the caller's memory
  kOutput,  ///< output buffer `index`
  kArena,  ///< block `index`
};

struct PlannedValue {
  Place place = Place::kUnknown;
  int index = 0;
  View view;  ///< type and shape; data for constants and, once resolved, for arena values
};

enum class StepKind : uint8_t {
  kSkip,  ///< nothing to do: a view, or folded into the plan
  kRun,  ///< shapes known, kernel configured
  kLate,  ///< shapes depend on data
  kControl,  ///< bodies
};

struct PlannedStep {
  StepKind kind = StepKind::kSkip;
  kernels::Configured configured;
  int scratch_block = -1;
  uint32_t first_in = 0;  ///< into ShapePlan::in
  uint32_t first_out = 0;  ///< into ShapePlan::out
};

struct ShapePlan {
  std::vector<Shape> input_shapes;  ///< the key
  std::vector<PlannedValue> values;
  std::vector<PlannedStep> steps;
  std::vector<Block> blocks;
  MemoryPlan memory;
  std::vector<View> in;  ///< of all kRun steps, in order
  std::vector<MutView> out;
  std::vector<Tensor> folded;  ///< owners of constants computed by the plan
  std::vector<uint64_t> output_bytes;  ///< per output buffer; 0 where the output is not planned into one
  std::optional<std::byte*> resolved_for;  ///< arena base that the pointers in `in`, `out` refer to
  bool has_late = false;  ///< some step is not planned
  uint64_t last_used = 0;  ///< clock of the executor's table

  /// Places in `in` and `out` to be filled at each run: caller's inputs and output buffers.
  struct Patch {
    int index;  ///< of the input or output
    bool is_output_buffer;
    int32_t in = -1;  ///< position in `in`, or
    int32_t out = -1;  ///< position in `out`
  };
  std::vector<Patch> patches;
};

/// Plans `prepared` for these inputs (types and shapes; data is not looked at).
Result<std::unique_ptr<ShapePlan>> MakeShapePlan(const Prepared& prepared, hw::Machine& machine, std::span<const View> inputs);

/// Points all arena views at `arena`.
void ResolveArena(std::byte* arena, ShapePlan* plan);
/// The buffer of values without elements: to kernels, null means that there is no buffer yet.
std::byte* NoBytes();

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_SHAPE_PLAN_H_
