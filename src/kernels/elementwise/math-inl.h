// Vector math on f32 for Highway's static target: include it from ISA files only (*_avx2.cc, *_avx512.cc, ...), which compile
// with that ISA's flags. Everything is static and lives in tenon::kernels::vmath; `d` is any f32 descriptor
// (hn::ScalableTag<float>, hn::CappedTag, hn::Half ...), `x` a vector of it.
//
//   namespace hn = hwy::HWY_NAMESPACE;   const hn::ScalableTag<float> d;   auto y = vmath::Exp(d, hn::LoadU(d, p));
//
// Largest error in units in the last place of the f32 result (math_test.cc checks it against double):
//   Exp 1   ExpNonPositive 1 (results below 2^-126 become 0, also within Sigmoid and all that follow it)   Expm1 2   Log 1
//   Log1p01 1   Tanh 2   Sigmoid 2.5   Erf 1 Softplus 2   GeluTanh, Swish, Silu, Mish 4   GeluErf 4, or 2^-24*|x| absolute where
//   1 + erf cancels (x < 0)
// NaN stays NaN; infinities give the limits. Polynomials are minimax fits (Lawson's algorithm) with coefficients rounded to f32
// in turn.
#ifndef TENON_KERNELS_ELEMENTWISE_MATH_INL_H_
#define TENON_KERNELS_ELEMENTWISE_MATH_INL_H_

#ifndef HWY_COMPILE_ONLY_STATIC
#define HWY_COMPILE_ONLY_STATIC
#endif
#include "hwy/highway.h"

namespace tenon::kernels::vmath {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#define TENON_VMATH                        \
  template <class D, class V = hn::Vec<D>> \
  static HWY_INLINE HWY_MAYBE_UNUSED V

/// 2^n for n in [-126, 127].
template <class D, class I = hn::Vec<hn::RebindToSigned<D>>>
static HWY_INLINE HWY_MAYBE_UNUSED hn::Vec<D> Pow2(D d, I n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

/// x = n*ln(2) + r, |r| <= ln(2)/2 (a little more by rounding), for |x| < 2^20; ln(2) in two parts keeps r exact to half an ulp.
template <class D, class V, class I>
static HWY_INLINE V ReduceExp(D d, V x, I* n) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5*2^23 rounds to a whole number and leaves it in the low mantissa bits.
  const V magic = hn::Set(d, 12582912.0f);
  const V t = hn::MulAdd(x, hn::Set(d, 1.44269504088896341f), magic);
  *n = hn::Sub(hn::BitCast(di, t), hn::Set(di, 0x4b400000));
  const V whole = hn::Sub(t, magic);
  const V r = hn::NegMulAdd(whole, hn::Set(d, 0.693145751953125f), x);
  return hn::NegMulAdd(whole, hn::Set(d, 1.42860677e-6f), r);
}

/// exp(r) - 1 for a reduced r.
TENON_VMATH Expm1Reduced(D d, V r) {
  V p = hn::Set(d, 0.00138220203f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00836885069f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416682549f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665196f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999994f));
  return hn::MulAdd(hn::Mul(r, r), p, r);
}

/// a / b for b and a/b in about [2^-100, 2^100]: reciprocal estimate, one Newton step, one correction of the quotient (1 ulp).
TENON_VMATH DivNormal(D d, V a, V b) {
  V r = hn::ApproximateReciprocal(b);
  r = hn::MulAdd(r, hn::NegMulAdd(b, r, hn::Set(d, 1.0f)), r);
  const V q = hn::Mul(a, r);
  return hn::MulAdd(r, hn::NegMulAdd(b, q, a), q);
}

/// exp(x) over the whole range, subnormal results included.
TENON_VMATH Exp(D d, V x) {
  // Outside these bounds the result is 0 or infinity anyway; NaN passes because Min and Max return their second operand then.
  const V bounded = hn::Min(hn::Set(d, 89.0f), hn::Max(hn::Set(d, -104.0f), x));
  hn::Vec<hn::RebindToSigned<D>> n;
  const V r = ReduceExp(d, bounded, &n);
  const V p = hn::Add(Expm1Reduced(d, r), hn::Set(d, 1.0f));
  // 2^n in two factors, since n reaches -150 and 128.
  const auto half = hn::ShiftRight<1>(n);
  return hn::Mul(hn::Mul(p, Pow2(d, half)), Pow2(d, hn::Sub(n, half)));
}

/// exp(x) for x <= 0 (or NaN): cheaper; below -87.33 the result is 0.
TENON_VMATH ExpNonPositive(D d, V x) {
  const V lowest = hn::Set(d, -87.33654f);
  const auto zero = hn::Lt(x, lowest);
  hn::Vec<hn::RebindToSigned<D>> n;
  const V r = ReduceExp(d, hn::Max(lowest, x), &n);
  const V p = hn::Add(Expm1Reduced(d, r), hn::Set(d, 1.0f));
  return hn::IfThenZeroElse(zero, hn::Mul(p, Pow2(d, n)));
}

/// exp(x) - 1 without cancellation near 0.
TENON_VMATH Expm1(D d, V x) {
  const V bounded = hn::Min(hn::Set(d, 89.0f), hn::Max(hn::Set(d, -20.0f), x));
  hn::Vec<hn::RebindToSigned<D>> n;
  const V r = ReduceExp(d, bounded, &n);
  const V p = Expm1Reduced(d, r);
  const auto half = hn::ShiftRight<1>(n);
  const V s1 = Pow2(d, half);
  const V s2 = Pow2(d, hn::Sub(n, half));
  // 2^n*p + (2^n - 1), with the last scaling outside so that 2^128 never appears.
  const V inverse = Pow2(d, hn::Sub(half, n));
  const V y = hn::Mul(hn::MulAdd(s1, p, hn::Sub(s1, inverse)), s2);
  // Tiny x: r is x and n is 0; keeps -0.
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1e-7f)), x, y);
}

/// log(1+f) + e*ln(2) for f in [sqrt(1/2)-1, sqrt(2)-1] and a whole e.
TENON_VMATH LogReduced(D d, V f, V e) {
  V p = hn::Set(d, 0.0674955621f);
  p = hn::MulAdd(p, f, hn::Set(d, -0.116701923f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.118834704f));
  p = hn::MulAdd(p, f, hn::Set(d, -0.124062076f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.142203629f));
  p = hn::MulAdd(p, f, hn::Set(d, -0.166679904f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.200020716f));
  p = hn::MulAdd(p, f, hn::Set(d, -0.250000089f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.333333135f));
  const V f2 = hn::Mul(f, f);
  V y = hn::Mul(hn::Mul(f2, f), p);
  y = hn::MulAdd(e, hn::Set(d, 1.42860677e-6f), y);
  y = hn::NegMulAdd(f2, hn::Set(d, 0.5f), y);
  return hn::MulAdd(e, hn::Set(d, 0.693145751953125f), hn::Add(f, y));
}

/// Natural logarithm; -infinity at 0, NaN below.
TENON_VMATH Log(D d, V x) {
  const hn::RebindToSigned<D> di;
  // Subnormals are scaled by 2^25 first.
  const auto tiny = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 33554432.0f)), x);
  const auto bits = hn::BitCast(di, scaled);
  // Exponent such that the mantissa lies in [sqrt(1/2), sqrt(2)).
  const auto shifted = hn::Sub(bits, hn::Set(di, 0x3f3504f3));
  V e = hn::ConvertTo(d, hn::ShiftRight<23>(shifted));
  const V m = hn::BitCast(d, hn::Add(hn::And(shifted, hn::Set(di, 0x007fffff)), hn::Set(di, 0x3f3504f3)));
  e = hn::IfThenElse(tiny, hn::Sub(e, hn::Set(d, 25.0f)), e);
  V y = LogReduced(d, hn::Sub(m, hn::Set(d, 1.0f)), e);
  const V infinity = hn::Inf(d);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y, hn::NaN(d));
}

/// log(1+u) for u in [0, 1].
TENON_VMATH Log1p01(D d, V u) {
  const auto large = hn::Gt(u, hn::Set(d, 0.41421356f));
  const V f = hn::IfThenElse(large, hn::Mul(hn::Sub(u, hn::Set(d, 1.0f)), hn::Set(d, 0.5f)), u);
  return LogReduced(d, f, hn::IfThenElseZero(large, hn::Set(d, 1.0f)));
}

TENON_VMATH Tanh(D d, V x) {
  const V a = hn::Min(hn::Set(d, 10.0f), hn::Abs(x));
  hn::Vec<hn::RebindToSigned<D>> n;
  const V r = ReduceExp(d, hn::Add(a, a), &n);
  const V s = Pow2(d, n);
  const V em1 = hn::MulAdd(s, Expm1Reduced(d, r), hn::Sub(s, hn::Set(d, 1.0f)));
  const V y = hn::Min(hn::Set(d, 1.0f), DivNormal(d, em1, hn::Add(em1, hn::Set(d, 2.0f))));
  // Below 2^-12 the cubic term is lost in rounding, and the quotient could go subnormal.
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.000244140625f)), x, hn::CopySign(y, x));
}

TENON_VMATH Sigmoid(D d, V x) {
  const V e = ExpNonPositive(d, hn::Neg(hn::Abs(x)));
  const V one = hn::Set(d, 1.0f);
  return DivNormal(d, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(e, one));
}

TENON_VMATH Erf(D d, V x) {
  const V t = hn::Min(hn::Set(d, 4.0f), hn::Abs(x));
  const V s = hn::Mul(t, t);
  // Near 0: x + x*R(x^2).
  V a = hn::Set(d, -0.000591655902f);
  a = hn::MulAdd(a, s, hn::Set(d, 0.00497895805f));
  a = hn::MulAdd(a, s, hn::Set(d, -0.0267573576f));
  a = hn::MulAdd(a, s, hn::Set(d, 0.112815842f));
  a = hn::MulAdd(a, s, hn::Set(d, -0.376124769f));
  a = hn::MulAdd(a, s, hn::Set(d, 0.128379151f));
  a = hn::MulAdd(a, x, x);
  // Further out: 1 - exp(log(erfc(t))).
  V b = hn::Set(d, 0.000195942703f);
  b = hn::MulAdd(b, t, hn::Set(d, -0.00304325973f));
  b = hn::MulAdd(b, t, hn::Set(d, 0.0222270563f));
  b = hn::MulAdd(b, t, hn::Set(d, -0.103931837f));
  b = hn::MulAdd(b, t, hn::Set(d, -0.637181997f));
  b = hn::MulAdd(b, t, hn::Set(d, -1.12767577f));
  b = hn::MulAdd(b, t, hn::Set(d, -0.000195639499f));
  hn::Vec<hn::RebindToSigned<D>> n;
  const V r = ReduceExp(d, b, &n);
  const V scale = Pow2(d, n);
  const V y = hn::Sub(hn::Sub(hn::Set(d, 1.0f), scale), hn::Mul(scale, Expm1Reduced(d, r)));
  return hn::IfThenElse(hn::Gt(t, hn::Set(d, 0.9277f)), hn::CopySign(y, x), a);
}

/// log(1 + exp(x))
TENON_VMATH Softplus(D d, V x) {
  const V u = ExpNonPositive(d, hn::Neg(hn::Abs(x)));
  return hn::Add(hn::Max(hn::Zero(d), x), Log1p01(d, u));
}

/// x * s with 0 * -infinity taken as -0, the limit of the functions below.
TENON_VMATH TimesGate(D d, V x, V gate) {
  return hn::IfThenElse(hn::Eq(gate, hn::Zero(d)), hn::CopySign(hn::Zero(d), x), hn::Mul(x, gate));
}

/// x/2 * (1 + erf(x/sqrt(2)))
TENON_VMATH GeluErf(D d, V x) {
  const V half = hn::Set(d, 0.5f);
  return TimesGate(d, x, hn::MulAdd(Erf(d, hn::Mul(x, hn::Set(d, 0.70710678f))), half, half));
}

/// x * sigmoid(sqrt(8/pi) * (x + 0.044715*x^3)), which is Gelu's tanh form.
TENON_VMATH GeluTanh(D d, V x) {
  const V x2 = hn::Mul(x, x);
  const V u = hn::Mul(x, hn::MulAdd(x2, hn::Set(d, 0.0713548163f), hn::Set(d, 1.59576912f)));
  return TimesGate(d, x, Sigmoid(d, u));
}

/// x * sigmoid(alpha*x)
TENON_VMATH Swish(D d, V x, V alpha) {
  return TimesGate(d, x, Sigmoid(d, hn::Mul(alpha, x)));
}
TENON_VMATH Silu(D d, V x) {
  return TimesGate(d, x, Sigmoid(d, x));
}

/// x * tanh(softplus(x)) = x * m/(m+2), m = e*(e+2), e = exp(x)
TENON_VMATH Mish(D d, V x) {
  const V e = Exp(d, hn::Min(hn::Set(d, 20.0f), x));
  const V m = hn::Mul(e, hn::Add(e, hn::Set(d, 2.0f)));
  return TimesGate(d, x, DivNormal(d, m, hn::Add(m, hn::Set(d, 2.0f))));
}

#undef TENON_VMATH

}  // namespace
}  // namespace tenon::kernels::vmath

#endif  // TENON_KERNELS_ELEMENTWISE_MATH_INL_H_
