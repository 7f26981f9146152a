// Packs blocks with lifetimes into one arena.
#ifndef TENON_RUNTIME_MEMORY_PLAN_H_
#define TENON_RUNTIME_MEMORY_PLAN_H_

#include <cstdint>
#include <span>

namespace tenon::runtime {

struct Block {
  uint64_t bytes = 0;
  int first = 0;         ///< first step at which the block is written
  int last = 0;          ///< last step at which it is read, inclusive
  uint64_t offset = 0;   ///< result, a multiple of 64
};

struct MemoryPlan {
  uint64_t before = 0;   ///< sum of all blocks
  uint64_t peak = 0;     ///< size of the arena
};

/// Greedy by size: the largest block first, each at the lowest gap between the blocks that live at the same time.
/// (Pisarchyk, Lee: Efficient Memory Management for Deep Neural Net Inference, 2020.)
MemoryPlan PlanMemory(std::span<Block> blocks);

/// True when no two blocks overlap in time and in space: the invariant that PlanMemory keeps.
bool IsValidPlan(std::span<const Block> blocks);

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_MEMORY_PLAN_H_
