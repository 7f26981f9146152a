#include "kernels/elementwise/broadcast.h"

namespace tenon::kernels::elementwise {

Result<SymShape> BroadcastSym(std::string_view op, const SymShape& a, const SymShape& b) {
  if (!a.has_rank() || !b.has_rank()) return SymShape();
  const int rank = std::max(a.rank(), b.rank());
  std::vector<Dim> dims;
  dims.reserve(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank());
    const int ib = i - (rank - b.rank());
    if (ia < 0 || ib < 0) {
      dims.push_back(ia < 0 ? b[ib] : a[ia]);
      continue;
    }
    auto d = Dim::Broadcast(a[ia], b[ib]);
    if (!d) {
      return BadInput("{}: shapes {} and {} do not broadcast: {} meets {} at axis {}; extents must be equal or 1", op,
                      a.ToString(), b.ToString(), a[ia].ToString(), b[ib].ToString(), i);
    }
    dims.push_back(*std::move(d));
  }
  return SymShape(std::move(dims));
}

Result<Shape> BroadcastShapes(std::string_view op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::OfRank(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank());
    const int ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a[ia];
    const int64_t db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1) {
      return BadInput("{}: shapes {} and {} do not broadcast: {} meets {} at axis {}; extents must be equal or 1", op,
                      a.ToString(), b.ToString(), da, db, i);
    }
    out[i] = da == 1 ? db : da;
  }
  return out;
}

void MakePlan(std::span<const Shape* const> shapes, const Shape& out, BroadcastPlan* plan) {
  const int operands = static_cast<int>(shapes.size());
  CHECK(operands <= kMaxOperands);
  plan->operands = operands;
  plan->total = out.num_elements();
  int64_t running[kMaxOperands];
  for (int i = 0; i < operands; ++i) running[i] = 1;
  // Built innermost first, reversed at the end.
  int rank = 0;
  for (int d = out.rank() - 1; d >= 0; --d) {
    const int64_t extent = out[d];
    if (extent == 1) continue;
    int64_t stride[kMaxOperands];
    bool merges = rank > 0;
    for (int i = 0; i < operands; ++i) {
      const Shape& s = *shapes[static_cast<size_t>(i)];
      const int own = d - (out.rank() - s.rank());
      const int64_t e = own < 0 ? 1 : s[own];
      stride[i] = e == 1 ? 0 : running[i];
      running[i] *= e;
      merges = merges && stride[i] == plan->stride[i][rank - 1] * plan->dims[rank - 1];
    }
    if (merges) {
      plan->dims[rank - 1] *= extent;
      continue;
    }
    plan->dims[rank] = extent;
    for (int i = 0; i < operands; ++i) plan->stride[i][rank] = stride[i];
    ++rank;
  }
  if (rank == 0) {
    plan->dims[0] = 1;
    for (int i = 0; i < operands; ++i) plan->stride[i][0] = 1;
    rank = 1;
  }
  std::reverse(plan->dims, plan->dims + rank);
  for (int i = 0; i < operands; ++i) std::reverse(plan->stride[i], plan->stride[i] + rank);
  plan->rank = rank;
}

}  // namespace tenon::kernels::elementwise
