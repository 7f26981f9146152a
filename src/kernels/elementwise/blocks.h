// Walks a broadcast in blocks of at most kBlock elements in which every operand is either a contiguous run or one element: what
// the array functions of F32Table want. Operands with short rows are expanded into scratch on the way.
#ifndef TENON_KERNELS_ELEMENTWISE_BLOCKS_H_
#define TENON_KERNELS_ELEMENTWISE_BLOCKS_H_

#include <algorithm>
#include <cstring>

#include "kernels/elementwise/broadcast.h"

namespace tenon::kernels::elementwise {

inline constexpr int64_t kBlock = 512;

/// How one operand is read; the same for all blocks of a run.
enum class Access : uint8_t {
  kRun,       ///< contiguous in the output's order
  kScalar,    ///< one element for the whole block
  kPeriodic,  ///< the same `period` <= kBlock elements again and again: expanded once
  kExpanded   ///< copied row by row into scratch
};

struct BlockPlan {
  bool by_rows = false;  ///< blocks are pieces of the innermost rows; otherwise of the flat output
  Access access[kMaxOperands];
  int64_t period[kMaxOperands];

  bool IsScalar(int i) const { return access[i] == Access::kScalar; }
};

/// Rows of at least `min_row` elements are used as they are.
void PlanBlocks(const BroadcastPlan& plan, int64_t min_row, BlockPlan* blocks);

/// Elements of scratch per operand that ForEachBlock needs.
inline constexpr int64_t kBlockScratch = 2 * kBlock;

/// Calls f(at, n, pointers) for blocks that cover output elements [begin, end): pointers[i] is a run of n elements, or one
/// element where blocks.IsScalar(i). `scratch` holds plan.operands * kBlockScratch elements.
template <typename T, typename F>
void ForEachBlock(const BroadcastPlan& plan, const BlockPlan& blocks, const T* const* data, int64_t begin, int64_t end,
                  T* scratch, F&& f) {
  const T* pointers[kMaxOperands];
  const int operands = plan.operands;
  if (blocks.by_rows) {
    ForEachRow(plan, begin, end, [&](int64_t at, int64_t n, const int64_t* offsets) {
      for (int64_t done = 0; done < n; done += kBlock) {
        for (int i = 0; i < operands; ++i) pointers[i] = data[i] + offsets[i] + done * plan.inner_stride(i);
        f(at + done, std::min(kBlock, n - done), static_cast<const T* const*>(pointers));
      }
    });
    return;
  }
  for (int i = 0; i < operands; ++i) {
    if (blocks.access[i] != Access::kPeriodic) continue;
    T* run = scratch + i * kBlockScratch;
    const int64_t period = blocks.period[i];
    const int64_t length = std::min(plan.total + period, kBlock + period);
    ForEachRow(plan, 0, std::min(period, plan.total), [&](int64_t at, int64_t n, const int64_t* offsets) {
      for (int64_t k = 0; k < n; ++k) run[at + k] = data[i][offsets[i] + k * plan.inner_stride(i)];
    });
    for (int64_t k = period; k < length; ++k) run[k] = run[k - period];
  }
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t n = std::min(kBlock, end - at);
    bool expand = false;
    for (int i = 0; i < operands; ++i) {
      T* own = scratch + i * kBlockScratch;
      switch (blocks.access[i]) {
        case Access::kRun: pointers[i] = data[i] + at; break;
        case Access::kScalar: pointers[i] = data[i]; break;
        case Access::kPeriodic: pointers[i] = own + at % blocks.period[i]; break;
        case Access::kExpanded: pointers[i] = own, expand = true; break;
      }
    }
    if (expand) {
      ForEachRow(plan, at, at + n, [&](int64_t row, int64_t m, const int64_t* offsets) {
        for (int i = 0; i < operands; ++i) {
          if (blocks.access[i] != Access::kExpanded) continue;
          const T* from = data[i] + offsets[i];
          T* to = scratch + i * kBlockScratch + (row - at);
          if (plan.inner_stride(i) == 0) {
            const T v = *from;
            for (int64_t k = 0; k < m; ++k) to[k] = v;
          } else {
            std::memcpy(to, from, static_cast<size_t>(m) * sizeof(T));
          }
        }
      });
    }
    f(at, n, static_cast<const T* const*>(pointers));
  }
}

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_BLOCKS_H_
