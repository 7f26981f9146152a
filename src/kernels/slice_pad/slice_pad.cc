#include "kernels/slice_pad/slice_pad.h"

#include "kernels/slice_pad/internal.h"

namespace tenon::kernels::slice_pad {
namespace {

#define KERNEL(op, rule, min_in, max_in, row, isa, can, make) constexpr Row k##op[] = {{row, isa, can, make}};
#include "kernels/slice_pad/kernels.inc"
#undef KERNEL

}  // namespace

std::span<const OpKernels> Operators() {
#define KERNEL(op, rule, min_in, max_in, row, isa, can, make) {#op, rule, k##op, min_in, max_in, 1, 1, false},
  static const OpKernels table[] = {
#include "kernels/slice_pad/kernels.inc"
  };
#undef KERNEL
  return table;
}

}  // namespace tenon::kernels::slice_pad
