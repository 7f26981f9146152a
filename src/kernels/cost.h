// What a step has to do at least, told from its shapes: arithmetic operations and bytes. For rooflines, reports and searches.
//
// Floating-point operations are counted as usual: a multiply-add is two; products and convolutions by their formula (padding
// counts), attention by the keys that each query sees, recurrent layers by their products; other operators by a small number for
// each element, where exp and its kin count as one. Moving data counts none. Integer products count like those of floats.
// Bytes are every operand read once and every result written once: what a cold run would fetch.
#ifndef TENON_KERNELS_COST_H_
#define TENON_KERNELS_COST_H_

#include <span>
#include <string_view>

#include "tensor/attrs.h"

namespace tenon::kernels {

struct Cost {
  double flops = 0;
  double bytes = 0;
  /// The type that the products multiply in, for operators made of products (that of their weights); kUndefined for others,
  /// which compute in vector registers.
  DType product = DType::kUndefined;
};

/// `in` and `out` with concrete shapes; data is not read. Operators that are not known count by elements.
Cost CostOf(std::string_view op, const Attrs& attrs, std::span<const View> in, std::span<const View> out);

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_COST_H_
