// Table of the linear algebra family.
#include "kernels/linalg/linalg.h"

#include "kernels/kernel_util.h"

namespace tenon::kernels::linalg {
namespace {

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, needs, can, make) {group, {name, needs, can, make}},
#include "kernels/linalg/kernels.inc"
#undef KERNEL
};

}  // namespace

std::span<const OpKernels> Operators() {
  static const auto einsum = RowsOf(kTable, "Einsum");
  static const auto det = RowsOf(kTable, "Det");
  static const auto inverse = RowsOf(kTable, "Inverse");
  static const OpKernels operators[] = {
      {"Einsum", InferEinsum, einsum, 1, kVariadic, 1, 1},
      {"Det", InferDet, det, 1, 1, 1, 1},
      {"Inverse", InferInverse, inverse, 1, 1, 1, 1},
  };
  return operators;
}

}  // namespace tenon::kernels::linalg
