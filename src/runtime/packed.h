// Packed weights in artifacts: what kernels make of constants, kept so that opening a model neither packs nor copies.
#ifndef TENON_RUNTIME_PACKED_H_
#define TENON_RUNTIME_PACKED_H_

#include <string>
#include <string_view>
#include <vector>

#include "artifact/program.h"
#include "hw/machine.h"
#include "kernels/kernel.h"

namespace tenon::runtime {

/// What packed weights depend on besides the problem and the row: sources of the kernels and instruction sets. Text.
std::string PackedFor(hw::IsaMask isa);

/// Gives the steps of `program` (not of bodies) the packed weights of the kernels they would run with on `machine`, and marks the
/// constants that nothing else reads. Does nothing for programs whose packed weights are below a megabyte.
Status PackWeights(artifact::Program* program, hw::Machine& machine);

/// Hands a kernel the packed weights of its step, in the order in which they were packed.
class SavedPacks final : public kernels::PackStore {
 public:
  SavedPacks(const artifact::Step& step, std::string_view row) : step_(step), serves_(step.packed_row == row) {}

  std::shared_ptr<Buffer> Take(size_t bytes) override {
    if (!serves_ || next_ == step_.packed.size() || step_.packed[next_]->bytes() != bytes) return nullptr;
    return step_.packed[next_++];
  }
  void Keep(const std::shared_ptr<Buffer>& /*packed*/) override {}
  /// True when all that the step has was taken.
  bool TookAll() const { return next_ == step_.packed.size(); }

 private:
  const artifact::Step& step_;
  bool serves_;
  size_t next_ = 0;
};

/// Remembers what the kernel of a step packs.
class PackRecord final : public kernels::PackStore {
 public:
  std::shared_ptr<Buffer> Take(size_t /*bytes*/) override { return nullptr; }
  void Keep(const std::shared_ptr<Buffer>& packed) override { pieces.push_back(packed); }

  std::string_view row;
  std::vector<std::shared_ptr<Buffer>> pieces;
  std::vector<artifact::ValueIndex> consumed;  ///< constants that only this kernel reads, and only to pack them
};

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_PACKED_H_
