// The inner loops of f32 normalisations for one instruction set; included by avx2.cc and avx512.cc, which name the table.
#include "kernels/norm/inner.h"
#include "kernels/vec_f32.h"

namespace tenon::kernels::norm {
namespace {

// Calls f(i, k) for vectors of k lanes from i on.
template <typename F>
inline void EachVector(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, kLanes);
  if (i < n) f(i, n - i);
}
inline V At(const float* p, int64_t i, int64_t k) {
  return k == kLanes ? Load(p + i) : LoadPart(p + i, k);
}
inline void Put(float* p, int64_t i, V v, int64_t k) {
  if (k == kLanes) {
    Store(p + i, v);
  } else {
    StorePart(p + i, v, k);
  }
}

float Sum(const float* x, int64_t n) {
  V a0 = Zero(), a1 = Zero(), a2 = Zero(), a3 = Zero();
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a0 = Add(a0, Load(x + i));
    a1 = Add(a1, Load(x + i + kLanes));
    a2 = Add(a2, Load(x + i + 2 * kLanes));
    a3 = Add(a3, Load(x + i + 3 * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) a0 = Add(a0, Load(x + i));
  if (i < n) a1 = Add(a1, LoadPart(x + i, n - i));
  return SumLanes(Add(Add(a0, a1), Add(a2, a3)));
}

// Sum of (x - shift)^2.
float SumSquares(const float* x, int64_t n, float shift) {
  const V s = Set1(shift);
  V a0 = Zero(), a1 = Zero(), a2 = Zero(), a3 = Zero();
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const V d0 = Sub(Load(x + i), s), d1 = Sub(Load(x + i + kLanes), s);
    const V d2 = Sub(Load(x + i + 2 * kLanes), s), d3 = Sub(Load(x + i + 3 * kLanes), s);
    a0 = Fma(d0, d0, a0), a1 = Fma(d1, d1, a1), a2 = Fma(d2, d2, a2), a3 = Fma(d3, d3, a3);
  }
  for (; i < n; i += kLanes) {
    const int64_t k = n - i < kLanes ? n - i : kLanes;
    const V d = Keep(Sub(LoadPart(x + i, k), s), Zero(), k);
    a0 = Fma(d, d, a0);
  }
  return SumLanes(Add(Add(a0, a1), Add(a2, a3)));
}

// Long runs in blocks, so that rounding grows with the number of blocks.
constexpr int64_t kBlock = 8192;

void Statistics(const float* x, int64_t n, float* mean, float* variance) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kBlock) sum += static_cast<double>(Sum(x + i, n - i < kBlock ? n - i : kBlock));
  *mean = static_cast<float>(sum / static_cast<double>(n));
  double squares = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    squares += static_cast<double>(SumSquares(x + i, n - i < kBlock ? n - i : kBlock, *mean));
  }
  *variance = static_cast<float>(squares / static_cast<double>(n));
}

void LayerRowF32(const LayerRow& r) {
  const float* t = r.x;
  if (r.skip != nullptr || r.bias != nullptr) {
    float* sum = r.sum != nullptr ? r.sum : r.y;
    EachVector(r.n, [&](int64_t i, int64_t k) {
      V v = At(r.x, i, k);
      if (r.skip != nullptr) v = Add(v, At(r.skip, i, k));
      if (r.bias != nullptr) v = Add(v, At(r.bias, i, k));
      Put(sum, i, v, k);
    });
    t = sum;
  } else if (r.sum != nullptr) {
    EachVector(r.n, [&](int64_t i, int64_t k) { Put(r.sum, i, At(r.x, i, k), k); });
  }
  float mean = 0, variance = 0;
  if (r.subtract_mean) {
    Statistics(t, r.n, &mean, &variance);
  } else {
    variance = SumSquares(t, r.n, 0) / static_cast<float>(r.n);
  }
  const float inv = 1.0f / __builtin_sqrtf(variance + r.epsilon);
  if (r.mean != nullptr) *r.mean = mean;
  if (r.inv != nullptr) *r.inv = inv;
  const V m = Set1(mean), s = Set1(inv);
  if (r.beta != nullptr) {
    EachVector(r.n, [&](int64_t i, int64_t k) {
      Put(r.y, i, Fma(Mul(Sub(At(t, i, k), m), s), At(r.gamma, i, k), At(r.beta, i, k)), k);
    });
  } else {
    EachVector(r.n, [&](int64_t i, int64_t k) { Put(r.y, i, Mul(Mul(Sub(At(t, i, k), m), s), At(r.gamma, i, k)), k); });
  }
}

void Affine(const float* x, float* y, int64_t n, float a, float b) {
  const V va = Set1(a), vb = Set1(b);
  EachVector(n, [&](int64_t i, int64_t k) { Put(y, i, Fma(At(x, i, k), va, vb), k); });
}

void AffineEach(const float* x, float* y, int64_t n, const float* a, const float* b) {
  EachVector(n, [&](int64_t i, int64_t k) { Put(y, i, Fma(At(x, i, k), At(a, i, k), At(b, i, k)), k); });
}

void Lrn075(const float* x, float* y, int64_t n, int64_t stride, int64_t first, int64_t last, float scale, float bias) {
  const V s = Set1(scale), b = Set1(bias);
  EachVector(n, [&](int64_t i, int64_t k) {
    V sum = Zero();
    for (int64_t c = first; c <= last; ++c) {
      const V v = At(x + c * stride, i, k);
      sum = Fma(v, v, sum);
    }
    const V root = Sqrt(Fma(sum, s, b));
    Put(y, i, Div(At(x, i, k), Mul(root, Sqrt(root))), k);
  });
}

}  // namespace
}  // namespace tenon::kernels::norm
