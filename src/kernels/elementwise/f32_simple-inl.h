// Unary f32 functions of a few instructions, and conversions to and from 16-bit floats.
#include "kernels/elementwise/loops-inl.h"

namespace tenon::kernels::elementwise {
namespace {

#define TENON_UNARY(Name, expression)                                                                    \
  struct Name {                                                                                          \
    static HWY_INLINE V Apply([[maybe_unused]] D d, V x, [[maybe_unused]] V p0, [[maybe_unused]] V p1) { \
      return expression;                                                                                 \
    }                                                                                                    \
  }

// Min and Max return their second operand when either is NaN, so a NaN in x stays.
HWY_INLINE V Clamp(V x, V low, V high) {
  return hn::Min(high, hn::Max(low, x));
}
HWY_INLINE V KeepNan(V x, V y) {
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

TENON_UNARY(Abs, hn::Abs(x));
TENON_UNARY(Ceil, hn::Ceil(x));
TENON_UNARY(Floor, hn::Floor(x));
TENON_UNARY(Round, hn::Round(x));
TENON_UNARY(Neg, hn::Neg(x));
TENON_UNARY(Reciprocal, hn::Div(hn::Set(d, 1.0f), x));
TENON_UNARY(Sqrt, hn::Sqrt(x));
TENON_UNARY(Relu, hn::Max(hn::Zero(d), x));
TENON_UNARY(Clip, Clamp(x, p0, p1));
TENON_UNARY(LeakyRelu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(p0, x), x));
TENON_UNARY(HardSigmoid, Clamp(hn::Add(hn::Mul(p0, x), p1), hn::Zero(d), hn::Set(d, 1.0f)));
TENON_UNARY(HardSwish,
            hn::Mul(x, Clamp(hn::Add(hn::Mul(x, hn::Set(d, 1.0f / 6)), hn::Set(d, 0.5f)), hn::Zero(d), hn::Set(d, 1.0f))));
TENON_UNARY(Sign, KeepNan(x, hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::CopySign(hn::Set(d, 1.0f), x))));
TENON_UNARY(ThresholdedRelu, KeepNan(x, hn::IfThenElseZero(hn::Gt(x, p0), x)));
// Where both bounds hold (a negative lambd) the lower one comes first.
TENON_UNARY(Shrink, KeepNan(x, hn::IfThenElse(hn::Lt(x, hn::Neg(p0)), hn::Add(x, p1),
                                              hn::IfThenElseZero(hn::Gt(x, p0), hn::Sub(x, p1)))));

TENON_UNARY(MulAdd, hn::Add(hn::Mul(x, p0), p1));

struct Softsign {
  static HWY_INLINE V Apply(D d, V x, V, V) {
    const V y = hn::Div(x, hn::Add(hn::Set(d, 1.0f), hn::Abs(x)));
    return hn::IfThenElse(hn::Eq(hn::Abs(x), hn::Inf(d)), hn::CopySign(hn::Set(d, 1.0f), x), y);
  }
};

#undef TENON_UNARY

// Whole vectors, then the rest through a small buffer.
template <class Convert, class From, class To>
HWY_INLINE void ConvertLoop(const From* x, To* y, int64_t n, Convert convert) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) convert(x + i, y + i);
  if (i < n) {
    From in[64] = {};
    To out[64];
    for (int64_t k = i; k < n; ++k) in[k - i] = x[k];
    convert(in, out);
    for (int64_t k = i; k < n; ++k) y[k] = out[k - i];
  }
}

void F16ToF32(const uint16_t* x, float* y, int64_t n) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> d16;
  const hn::Rebind<uint16_t, D> du16;
  ConvertLoop(x, y, n, [&](const uint16_t* from, float* to) {
    hn::StoreU(hn::PromoteTo(d, hn::BitCast(d16, hn::LoadU(du16, from))), d, to);
  });
}

void F32ToF16(const float* x, uint16_t* y, int64_t n) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> d16;
  const hn::Rebind<uint16_t, D> du16;
  ConvertLoop(x, y, n, [&](const float* from, uint16_t* to) {
    hn::StoreU(hn::BitCast(du16, hn::DemoteTo(d16, hn::LoadU(d, from))), du16, to);
  });
}

void BF16ToF32(const uint16_t* x, float* y, int64_t n) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> du16;
  ConvertLoop(x, y, n, [&](const uint16_t* from, float* to) {
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(du16, from)))), d, to);
  });
}

// Round to nearest even; NaN keeps its upper bits and becomes quiet.
void F32ToBF16(const float* x, uint16_t* y, int64_t n) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> du16;
  ConvertLoop(x, y, n, [&](const float* from, uint16_t* to) {
    const V v = hn::LoadU(d, from);
    const auto bits = hn::BitCast(du, v);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff))));
    const auto quiet = hn::Or(upper, hn::Set(du, 0x40));
    const auto out = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
    hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, out)), du16, to);
  });
}

}  // namespace

void TENON_FILL(F32Table* table) {
#define TENON_SET(Name) table->unary[static_cast<int>(UnaryOp::k##Name)] = UnaryLoop<Name>
  TENON_SET(Abs);
  TENON_SET(Ceil);
  TENON_SET(Floor);
  TENON_SET(Round);
  TENON_SET(Neg);
  TENON_SET(Reciprocal);
  TENON_SET(Sqrt);
  TENON_SET(Relu);
  TENON_SET(Clip);
  TENON_SET(LeakyRelu);
  TENON_SET(HardSigmoid);
  TENON_SET(HardSwish);
  TENON_SET(Sign);
  TENON_SET(ThresholdedRelu);
  TENON_SET(Shrink);
  TENON_SET(Softsign);
#undef TENON_SET
  table->mul_add = UnaryLoop<MulAdd>;
  table->f16_to_f32 = F16ToF32;
  table->f32_to_f16 = F32ToF16;
  table->bf16_to_f32 = BF16ToF32;
  table->f32_to_bf16 = F32ToBF16;
}

}  // namespace tenon::kernels::elementwise
