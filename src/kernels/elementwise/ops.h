// From operator names and attributes to scalar functions and their parameters.
#ifndef TENON_KERNELS_ELEMENTWISE_OPS_H_
#define TENON_KERNELS_ELEMENTWISE_OPS_H_

#include <string_view>

#include "base/status.h"
#include "kernels/elementwise/op_names.h"
#include "tensor/attrs.h"

namespace tenon::kernels::elementwise {

struct UnaryFn {
  UnaryOp op = UnaryOp::kCount;
  float p0 = 0;
  float p1 = 0;
};

/// The function of a unary operator with its attributes; kBadInput for an attribute value that is not allowed, nullopt in
/// `Find...` for a name that is no unary operator. Clip is unary here with bounds to be filled in.
Result<UnaryFn> ParseUnary(std::string_view op, const Attrs& attrs);
/// The same for binary and variadic (Max, Min, Sum, Mean: the step that combines two) operators.
Result<BinaryOp> ParseBinary(std::string_view op, const Attrs& attrs);

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_OPS_H_
