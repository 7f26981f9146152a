#include "kernels/select/select.h"

#include "kernels/select/internal.h"

namespace tenon::kernels::select {
namespace {

#define KERNEL(op, rule, min_in, max_in, min_out, max_out, row, isa, can, make) constexpr Row k##op[] = {{row, isa, can, make}};
#include "kernels/select/kernels.inc"
#undef KERNEL

}  // namespace

std::span<const OpKernels> Operators() {
#define KERNEL(op, rule, min_in, max_in, min_out, max_out, row, isa, can, make) \
  {#op, rule, k##op, min_in, max_in, min_out, max_out, false},
  static const OpKernels table[] = {
#include "kernels/select/kernels.inc"
  };
#undef KERNEL
  return table;
}

}  // namespace tenon::kernels::select
