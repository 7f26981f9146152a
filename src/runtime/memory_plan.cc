#include "runtime/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tenon::runtime {
namespace {

constexpr uint64_t kAlignment = 64;

uint64_t Padded(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool Together(const Block& a, const Block& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryPlan PlanMemory(std::span<Block> blocks) {
  MemoryPlan plan;
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<const Block*> placed;  // by offset
  for (size_t index : order) {
    Block& block = blocks[index];
    const uint64_t need = Padded(block.bytes);
    plan.before += need;
    uint64_t cursor = 0;
    for (const Block* other : placed) {
      if (!Together(*other, block)) continue;
      if (other->offset >= cursor + need) break;
      cursor = std::max(cursor, other->offset + Padded(other->bytes));
    }
    block.offset = cursor;
    plan.peak = std::max(plan.peak, cursor + need);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), cursor,
                                   [](uint64_t offset, const Block* b) { return offset < b->offset; }),
                  &block);
  }
  return plan;
}

bool IsValidPlan(std::span<const Block> blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t j = i + 1; j < blocks.size(); ++j) {
      const Block& a = blocks[i];
      const Block& b = blocks[j];
      if (Together(a, b) && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes) return false;
    }
  }
  return true;
}

}  // namespace tenon::runtime
