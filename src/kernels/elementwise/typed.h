// Plain array functions on integers, bool and floats for one instruction set: binary integer operators, Not, casts, selection. No
// broadcasting, no threads.
#ifndef TENON_KERNELS_ELEMENTWISE_TYPED_H_
#define TENON_KERNELS_ELEMENTWISE_TYPED_H_

#include <cstdint>

#include "base/dtype.h"
#include "hw/isa.h"
#include "kernels/elementwise/f32_table.h"
#include "kernels/elementwise/op_names.h"

namespace tenon::kernels::elementwise {

/// y[i] = f(a[i], b[i]) with the forms of f32_table.h; y may be a or b where the widths agree.
using TypedBinary = void (*)(const void* a, const void* b, void* y, int64_t n);
/// y[i] = f(x[i]); y may be x where the widths agree.
using TypedUnary = void (*)(const void* x, void* y, int64_t n);
/// y[i] = c[i] != 0 ? a[i] : b[i]; y may be a or b.
using TypedSelect = void (*)(const uint8_t* c, const void* a, const void* b, void* y, int64_t n);

/// y[i] = x[i] is NaN; or infinite, of the signs asked for.
using FloatTest = void (*)(const float* x, uint8_t* y, int64_t n, bool negative, bool positive);

/// Types that casts know; bool counts as a u8 that is 0 or 1.
enum Plain { kPlainF32, kPlainF64, kPlainI64, kPlainI32, kPlainU8, kPlainI8, kPlainBool, kPlainTypes };

struct TypedTable {
  struct Ops {
    TypedBinary binary[static_cast<int>(BinaryOp::kCount)][kForms] = {};  ///< null: not served
    TypedUnary unary[static_cast<int>(UnaryOp::kCount)] = {};
  };
  Ops i64, i32, boolean;
  TypedUnary cast[kPlainTypes][kPlainTypes] = {};  ///< [from][to]
  TypedSelect select[4][4] = {};  ///< [log2 of the bytes][bit 0: a is one element, bit 1: b is]

  FloatTest is_nan = nullptr, is_inf = nullptr;

  const Ops* Of(DType t) const {
    return t == DType::kI64 ? &i64 : t == DType::kI32 ? &i32 : t == DType::kBool ? &boolean : nullptr;
  }
};

/// The best table for `isa`.
const TypedTable& TypedTableFor(hw::IsaMask isa);

void FillTypedPortable(TypedTable* table);
void FillTypedAvx2(TypedTable* table);
void FillTypedAvx512(TypedTable* table);

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_TYPED_H_
