// Sine, cosine, and the inverses of sine, cosine and tangent on f32.
#include <math.h>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/elementwise/loops-inl.h"

namespace tenon::kernels::elementwise {
namespace {

struct Sin {
  static HWY_INLINE V Apply(D d, V x) { return hn::Sin(d, x); }
  static float Scalar(float x) { return ::sinf(x); }
};
struct Cos {
  static HWY_INLINE V Apply(D d, V x) { return hn::Cos(d, x); }
  static float Scalar(float x) { return ::cosf(x); }
};

// Highway's argument reduction holds up to |x| = 39000; vectors with anything larger (or NaN) go through the C library.
template <class F>
void TrigLoop(const float* x, float* y, int64_t n, float /*p0*/, float /*p1*/) {
  const D d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t m = n - i < kLanes ? n - i : kLanes;
    const auto mask = hn::FirstN(d, static_cast<size_t>(m));
    const V v = hn::MaskedLoad(mask, d, x + i);
    if (hn::AllTrue(d, hn::Le(hn::Abs(v), hn::Set(d, 39000.0f)))) {
      hn::BlendedStore(F::Apply(d, v), mask, d, y + i);
    } else {
      for (int64_t k = i; k < i + m; ++k) y[k] = F::Scalar(x[k]);
    }
  }
}

// Inverse functions of a few ulps.
struct Acos {
  static HWY_INLINE V Apply(D d, V x, V, V) { return hn::Acos(d, x); }
};
struct Asin {
  static HWY_INLINE V Apply(D d, V x, V, V) { return hn::Asin(d, x); }
};
struct Atan {
  static HWY_INLINE V Apply(D d, V x, V, V) { return hn::Atan(d, x); }
};

}  // namespace

void TENON_FILL(F32Table* table) {
  table->unary[static_cast<int>(UnaryOp::kSin)] = TrigLoop<Sin>;
  table->unary[static_cast<int>(UnaryOp::kCos)] = TrigLoop<Cos>;
  table->unary[static_cast<int>(UnaryOp::kAcos)] = UnaryLoop<Acos>;
  table->unary[static_cast<int>(UnaryOp::kAsin)] = UnaryLoop<Asin>;
  table->unary[static_cast<int>(UnaryOp::kAtan)] = UnaryLoop<Atan>;
}

}  // namespace tenon::kernels::elementwise
