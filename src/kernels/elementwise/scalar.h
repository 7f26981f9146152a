// The oracle: every scalar function in plain C++, over arrays of words of one kind.
#ifndef TENON_KERNELS_ELEMENTWISE_SCALAR_H_
#define TENON_KERNELS_ELEMENTWISE_SCALAR_H_

#include "kernels/elementwise/convert.h"
#include "kernels/elementwise/ops.h"

namespace tenon::kernels::elementwise {

/// in place over words of `kind`; functions that give bool leave kUnsigned words.
void ApplyUnary(const UnaryFn& fn, Kind kind, int64_t n, Word* w);

/// out[k] = op(a[k], b[k]); out may be a. `bits`: width of the integer type, for shifts. Both operands have `kind`; for kPow of
/// integers b holds a signed or unsigned word as `exponent_signed` says.
void ApplyBinary(BinaryOp op, Kind kind, int bits, int64_t n, const Word* a, const Word* b, Word* out,
                 bool exponent_signed = true);

/// Whether `op` is defined for elements of type `t` (ONNX's type constraints; a little wider where that is harmless).
bool Accepts(UnaryOp op, DType t);
bool Accepts(BinaryOp op, DType t);

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_SCALAR_H_
