// Binary f32 functions and comparisons.
#include <math.h>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/elementwise/loops-inl.h"

namespace tenon::kernels::elementwise {
namespace {

#define TENON_BINARY(Name, expression)                             \
  struct Name {                                                    \
    static HWY_INLINE auto Apply([[maybe_unused]] D d, V a, V b) { \
      return expression;                                           \
    }                                                              \
  }

// Min and Max return their second operand when either is NaN: only a NaN in a needs care.
TENON_BINARY(Add, hn::Add(a, b));
TENON_BINARY(Sub, hn::Sub(a, b));
TENON_BINARY(Mul, hn::Mul(a, b));
TENON_BINARY(Div, hn::Div(a, b));
TENON_BINARY(Max, hn::IfThenElse(hn::IsNaN(a), a, hn::Max(a, b)));
TENON_BINARY(Min, hn::IfThenElse(hn::IsNaN(a), a, hn::Min(a, b)));
TENON_BINARY(PRelu, hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Mul(a, b), a));
TENON_BINARY(GeluErfAdd, vmath::GeluErf(d, hn::Add(a, b)));
TENON_BINARY(GeluTanhAdd, vmath::GeluTanh(d, hn::Add(a, b)));
TENON_BINARY(Equal, hn::Eq(a, b));
TENON_BINARY(Less, hn::Lt(a, b));
TENON_BINARY(LessOrEqual, hn::Le(a, b));
TENON_BINARY(Greater, hn::Gt(a, b));
TENON_BINARY(GreaterOrEqual, hn::Ge(a, b));

#undef TENON_BINARY

// x to powers that need no logarithm.
struct Square {
  static HWY_INLINE V Apply(D, V x, V, V) { return hn::Mul(x, x); }
};
struct Cube {
  static HWY_INLINE V Apply(D, V x, V, V) { return hn::Mul(hn::Mul(x, x), x); }
};
struct Root {
  // x^0.5: +0 at -0 and +infinity at -infinity, unlike sqrt.
  static HWY_INLINE V Apply(D d, V x, V, V) {
    const V y = hn::Sqrt(hn::Add(x, hn::Zero(d)));
    return hn::IfThenElse(hn::Eq(x, hn::Neg(hn::Inf(d))), hn::Inf(d), y);
  }
};
struct InverseRoot {
  static HWY_INLINE V Apply(D d, V x, V p0, V p1) { return hn::Div(hn::Set(d, 1.0f), Root::Apply(d, x, p0, p1)); }
};
struct Inverse {
  static HWY_INLINE V Apply(D d, V x, V, V) { return hn::Div(hn::Set(d, 1.0f), x); }
};
struct Copy {
  static HWY_INLINE V Apply(D, V x, V, V) { return x; }
};

// x^y = exp(y * log(x)) in double for finite positive x and finite y: the error of the product stays far below half an ulp of
// f32.
HWY_INLINE V PowPositive(D d, V x, V y) {
  const hn::Half<D> dh;
  const hn::Repartition<double, D> dd;
  const auto part = [&](hn::Vec<hn::Half<D>> px, hn::Vec<hn::Half<D>> py) {
    const auto e = hn::Mul(hn::PromoteTo(dd, py), hn::Log(dd, hn::PromoteTo(dd, px)));
    // Bounds beyond which f32 is 0 or infinite, and within which Exp is exact enough.
    return hn::DemoteTo(dh, hn::Exp(dd, hn::Min(hn::Set(dd, 200.0), hn::Max(hn::Set(dd, -200.0), e))));
  };
  const auto low = part(hn::LowerHalf(dh, x), hn::LowerHalf(dh, y));
  const auto high = part(hn::UpperHalf(dh, x), hn::UpperHalf(dh, y));
  return hn::Combine(d, high, low);
}

template <int kForm>
void PowVectors(const float* a, const float* b, float* y, int64_t n) {
  const D d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const V sa = hn::Set(d, *a);
  const V sb = hn::Set(d, *b);
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t m = n - i < kLanes ? n - i : kLanes;
    const auto mask = hn::FirstN(d, static_cast<size_t>(m));
    // Lanes beyond the end read as 0: 1 keeps them out of the slow path.
    const V one = hn::Set(d, 1.0f);
    const V va = kForm == kFirstScalar ? sa : hn::IfThenElse(mask, hn::MaskedLoad(mask, d, a + i), one);
    const V vb = kForm == kSecondScalar ? sb : hn::MaskedLoad(mask, d, b + i);
    const auto plain = hn::And(hn::And(hn::Gt(va, hn::Zero(d)), hn::Lt(va, hn::Inf(d))), hn::Lt(hn::Abs(vb), hn::Inf(d)));
    if (hn::AllTrue(d, plain)) {
      hn::BlendedStore(PowPositive(d, va, vb), mask, d, y + i);
      continue;
    }
    // Zeros, negative bases, infinities and NaN: the C library knows the rules.
    for (int64_t k = i; k < i + m; ++k) y[k] = ::powf(kForm == kFirstScalar ? *a : a[k], kForm == kSecondScalar ? *b : b[k]);
  }
}

template <int kForm>
void PowLoop(const float* a, const float* b, float* y, int64_t n) {
  if (n <= 0) return;
  if constexpr (kForm == kSecondScalar) {
    const float p = *b;
    if (p == 2.0f) return UnaryLoop<Square>(a, y, n, 0, 0);
    if (p == 3.0f) return UnaryLoop<Cube>(a, y, n, 0, 0);
    if (p == 1.0f) return UnaryLoop<Copy>(a, y, n, 0, 0);
    if (p == 0.5f) return UnaryLoop<Root>(a, y, n, 0, 0);
    if (p == -0.5f) return UnaryLoop<InverseRoot>(a, y, n, 0, 0);
    if (p == -1.0f) return UnaryLoop<Inverse>(a, y, n, 0, 0);
  }
  PowVectors<kForm>(a, b, y, n);
}

}  // namespace

void TENON_FILL(F32Table* table) {
#define TENON_SET(Name, Loop, kind)                                                            \
  table->kind[static_cast<int>(BinaryOp::k##Name)][kBothVectors] = Loop<Name, kBothVectors>;   \
  table->kind[static_cast<int>(BinaryOp::k##Name)][kSecondScalar] = Loop<Name, kSecondScalar>; \
  table->kind[static_cast<int>(BinaryOp::k##Name)][kFirstScalar] = Loop<Name, kFirstScalar>
  TENON_SET(Add, BinaryLoop, binary);
  TENON_SET(Sub, BinaryLoop, binary);
  TENON_SET(Mul, BinaryLoop, binary);
  TENON_SET(Div, BinaryLoop, binary);
  TENON_SET(Max, BinaryLoop, binary);
  TENON_SET(Min, BinaryLoop, binary);
  TENON_SET(PRelu, BinaryLoop, binary);
  TENON_SET(GeluErfAdd, BinaryLoop, binary);
  TENON_SET(GeluTanhAdd, BinaryLoop, binary);
  TENON_SET(Equal, CompareLoop, compare);
  TENON_SET(Less, CompareLoop, compare);
  TENON_SET(LessOrEqual, CompareLoop, compare);
  TENON_SET(Greater, CompareLoop, compare);
  TENON_SET(GreaterOrEqual, CompareLoop, compare);
#undef TENON_SET
  table->binary[static_cast<int>(BinaryOp::kPow)][kBothVectors] = PowLoop<kBothVectors>;
  table->binary[static_cast<int>(BinaryOp::kPow)][kSecondScalar] = PowLoop<kSecondScalar>;
  table->binary[static_cast<int>(BinaryOp::kPow)][kFirstScalar] = PowLoop<kFirstScalar>;
}

}  // namespace tenon::kernels::elementwise
