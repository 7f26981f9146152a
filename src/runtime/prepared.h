// A program made ready for one machine: each step with its kernel, weights packed. Independent of input shapes.
#ifndef TENON_RUNTIME_PREPARED_H_
#define TENON_RUNTIME_PREPARED_H_

#include <memory>
#include <string>
#include <vector>

#include "artifact/program.h"
#include "hw/machine.h"
#include "kernels/kernel.h"
#include "runtime/packed.h"

namespace tenon::runtime {

class Executor;

struct PreparedStep {
  const artifact::Step* step = nullptr;
  const kernels::OpKernels* op = nullptr;           ///< null for control flow
  const kernels::Row* row = nullptr;
  std::unique_ptr<const kernels::Kernel> kernel;
  std::vector<std::pair<std::string_view, kernels::Refusal>> refused;
  std::vector<std::unique_ptr<Executor>> bodies;    ///< control flow only; null for a branch of an If in `unfit`
  std::vector<Status> unfit;                        ///< per body: why it cannot run with the shapes it would get

  bool is_control_flow() const { return op == nullptr; }
};

struct Prepared {
  const artifact::Program* program = nullptr;
  std::vector<PreparedStep> steps;
  std::vector<int> last_use;  ///< per value: last step that reads it; steps.size() for outputs; -1: never
  uint64_t packed_bytes = 0;
  bool packs_serve = true;    ///< all packed weights that the program brings are in use
};

/// Constants that were packed and that nothing else reads lose their contents (Buffer::Discard). `records`: one per step, told
/// what its kernel packs; empty: nobody asks.
Result<Prepared> Prepare(const artifact::Program& program, hw::Machine& machine, int max_cached_shapes,
                         std::span<PackRecord> records = {});

/// What a shape rule is told of a step's outputs: which are wanted, and which are declared to be sequences (some rules cannot
/// tell from their inputs).
void DeclareOutputs(const artifact::Program& program, const artifact::Step& step, std::span<kernels::ValueInfo> infos);

/// Names of the rows after the chosen one that would serve the step on this machine too. Asked by those who choose kernels, not
/// in opening a model.
std::vector<std::string_view> Alternatives(const artifact::Program& program, const PreparedStep& step,
                                           const hw::Machine& machine);

/// "step 'name' (Op)" for messages.
std::string Describe(const artifact::Step& step);

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_PREPARED_H_
