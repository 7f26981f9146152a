#include "kernels/elementwise/blocks.h"

namespace tenon::kernels::elementwise {
namespace {

// The period with which an operand repeats in the flat output, 0 when it does not repeat within kBlock elements.
int64_t PeriodOf(const BroadcastPlan& plan, int i) {
  // Beyond the outermost dimension that it advances in, an operand starts over.
  int outer = 0;
  while (outer < plan.rank && plan.stride[i][outer] == 0) ++outer;
  if (outer == 0) return 0;
  int64_t period = 1;
  for (int d = outer; d < plan.rank; ++d) {
    period *= plan.dims[d];
    if (period > kBlock) return 0;
  }
  return period;
}

Access FlatAccess(const BroadcastPlan& plan, int i, int64_t* period) {
  bool run = true;
  bool scalar = true;
  int64_t dense = 1;
  for (int d = plan.rank - 1; d >= 0; --d) {
    run = run && plan.stride[i][d] == dense;
    scalar = scalar && plan.stride[i][d] == 0;
    dense *= plan.dims[d];
  }
  if (run) return Access::kRun;
  if (scalar) return Access::kScalar;
  *period = PeriodOf(plan, i);
  return *period > 0 ? Access::kPeriodic : Access::kExpanded;
}

}  // namespace

void PlanBlocks(const BroadcastPlan& plan, int64_t min_row, BlockPlan* blocks) {
  blocks->by_rows = plan.rank > 1 && plan.inner() >= min_row;
  for (int i = 0; i < plan.operands; ++i) {
    blocks->period[i] = 0;
    if (blocks->by_rows) {
      blocks->access[i] = plan.inner_stride(i) == 0 ? Access::kScalar : Access::kRun;
    } else {
      blocks->access[i] = FlatAccess(plan, i, &blocks->period[i]);
    }
  }
}

}  // namespace tenon::kernels::elementwise
