#include "kernels/shape_ops/shape_ops.h"

#include "kernels/shape_ops/internal.h"

namespace tenon::kernels::shape_ops {
namespace {

#define KERNEL(op, rule, min_in, max_in, row, isa, can, make) constexpr Row k##op[] = {{row, isa, can, make}};
#include "kernels/shape_ops/kernels.inc"
#undef KERNEL

}  // namespace

std::span<const OpKernels> Operators() {
#define KERNEL(op, rule, min_in, max_in, row, isa, can, make) {#op, rule, k##op, min_in, max_in, 1, 1, false},
  static const OpKernels table[] = {
#include "kernels/shape_ops/kernels.inc"
  };
#undef KERNEL
  return table;
}

}  // namespace tenon::kernels::shape_ops
