#include "kernels/gather_scatter/gather_scatter.h"

#include "kernels/gather_scatter/internal.h"
#include "kernels/movement/element.h"

namespace tenon::kernels::gather_scatter {
namespace {

template <typename T>
Status CheckAll(std::string_view op, const T* indices, int64_t n, int64_t extent) {
  bool good = true;
  for (int64_t i = 0; i < n; ++i) good &= InRange(indices[i], extent);
  if (good) return Status::Ok();
  int64_t i = 0;
  while (InRange(indices[i], extent)) ++i;
  return IndexError(op, indices[i], i, extent);
}

#define KERNEL(op, rule, min_in, max_in, row, isa, can, make) constexpr Row k##op[] = {{row, isa, can, make}};
#include "kernels/gather_scatter/kernels.inc"
#undef KERNEL

}  // namespace

Status CheckIndices(std::string_view op, const View& indices, int64_t extent) {
  const int64_t n = indices.num_elements();
  if (indices.dtype == DType::kI64) return CheckAll(op, indices.Data<int64_t>(), n, extent);
  if (indices.dtype == DType::kI32) return CheckAll(op, indices.Data<int32_t>(), n, extent);
  return BadInput("{}: indices must be int32 or int64, not {}", op, DTypeName(indices.dtype));
}

Status CheckKnownIndices(std::string_view op, const ValueInfo& indices, const Dim& extent) {
  if (!extent.is_const()) return Status::Ok();
  auto known = movement::SmallKnownInts(indices, movement::kMaxKnownElements);
  if (!known) return Status::Ok();
  for (size_t i = 0; i < known->size(); ++i) {
    if (!InRange((*known)[i], extent.value())) return IndexError(op, (*known)[i], static_cast<int64_t>(i), extent.value());
  }
  return Status::Ok();
}

Status CheckIndexType(std::string_view op, const ValueInfo& indices) {
  if (indices.dtype == DType::kUndefined || movement::IsIndexType(indices.dtype)) return Status::Ok();
  return BadInput("{}: indices must be int32 or int64, not {}", op, DTypeName(indices.dtype));
}

std::span<const OpKernels> Operators() {
#define KERNEL(op, rule, min_in, max_in, row, isa, can, make) {#op, rule, k##op, min_in, max_in, 1, 1, false},
  static const OpKernels table[] = {
#include "kernels/gather_scatter/kernels.inc"
  };
#undef KERNEL
  return table;
}

}  // namespace tenon::kernels::gather_scatter
