// Unary f32 functions built on exp and log. TENON_FILL names the function that puts them into a table.
#include "kernels/elementwise/loops-inl.h"

namespace tenon::kernels::elementwise {
namespace {

#define TENON_UNARY(Name, expression)                                                                    \
  struct Name {                                                                                          \
    static HWY_INLINE V Apply([[maybe_unused]] D d, V x, [[maybe_unused]] V p0, [[maybe_unused]] V p1) { \
      return expression;                                                                                 \
    }                                                                                                    \
  }

// x > 0 ? x : y, with NaN kept from x
HWY_INLINE V Positive(D d, V x, V y) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), y, x);
}

TENON_UNARY(Exp, vmath::Exp(d, x));
TENON_UNARY(Log, vmath::Log(d, x));
TENON_UNARY(Tanh, vmath::Tanh(d, x));
TENON_UNARY(Sigmoid, vmath::Sigmoid(d, x));
TENON_UNARY(Erf, vmath::Erf(d, x));
TENON_UNARY(Softplus, vmath::Softplus(d, x));
TENON_UNARY(GeluErf, vmath::GeluErf(d, x));
TENON_UNARY(GeluTanh, vmath::GeluTanh(d, x));
TENON_UNARY(Swish, vmath::Swish(d, x, p0));
TENON_UNARY(Mish, vmath::Mish(d, x));
TENON_UNARY(Elu, Positive(d, x, hn::Mul(p0, vmath::Expm1(d, x))));
TENON_UNARY(Celu, Positive(d, x, hn::Mul(p0, vmath::Expm1(d, hn::Div(x, p0)))));
TENON_UNARY(Selu, hn::Mul(p1, Positive(d, x, hn::Mul(p0, vmath::Expm1(d, x)))));

#undef TENON_UNARY

}  // namespace

void TENON_FILL(F32Table* table) {
#define TENON_SET(Name) table->unary[static_cast<int>(UnaryOp::k##Name)] = UnaryLoop<Name, true>
  TENON_SET(Exp);
  TENON_SET(Log);
  TENON_SET(Tanh);
  TENON_SET(Sigmoid);
  TENON_SET(Erf);
  TENON_SET(Softplus);
  TENON_SET(GeluErf);
  TENON_SET(GeluTanh);
  TENON_SET(Swish);
  TENON_SET(Mish);
  TENON_SET(Elu);
  TENON_SET(Celu);
  TENON_SET(Selu);
#undef TENON_SET
}

}  // namespace tenon::kernels::elementwise
