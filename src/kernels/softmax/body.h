// The inner loops of f32 softmax for one instruction set; included by avx2.cc and avx512.cc, which name the table.
#include <math.h>

#include "kernels/softmax/inner.h"
#include "kernels/vec_f32.h"

namespace tenon::kernels::softmax {
namespace {

float RowMax(const float* x, int64_t n) {
  const V least = Set1(-__builtin_inff());
  V a0 = least, a1 = least, a2 = least, a3 = least;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a0 = Max(a0, Load(x + i));
    a1 = Max(a1, Load(x + i + kLanes));
    a2 = Max(a2, Load(x + i + 2 * kLanes));
    a3 = Max(a3, Load(x + i + 3 * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) a0 = Max(a0, Load(x + i));
  if (i < n) a1 = Max(a1, Keep(LoadPart(x + i, n - i), least, n - i));
  return MaxLanes(Max(Max(a0, a1), Max(a2, a3)));
}

// Rows are short against the memory's latency and end in a chain of reductions: later rows are asked for ahead.
constexpr int64_t kAhead = 1024;

// y = exp(x - max), unless y is null; returns the sum.
template <bool kStore>
float RowExp(const float* x, float* y, int64_t n, float max) {
  const V m = Set1(max);
  V s0 = Zero(), s1 = Zero();
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const V e0 = Exp(Sub(Load(x + i), m));
    const V e1 = Exp(Sub(Load(x + i + kLanes), m));
    for (int64_t line = 0; line < 2 * kLanes; line += 16) {
      __builtin_prefetch(x + i + kAhead + line);
      if (kStore) __builtin_prefetch(y + i + kAhead + line, 1);
    }
    s0 = Add(s0, e0);
    s1 = Add(s1, e1);
    if (kStore) Store(y + i, e0), Store(y + i + kLanes, e1);
  }
  for (; i < n; i += kLanes) {
    const int64_t k = n - i < kLanes ? n - i : kLanes;
    const V e = Exp(Sub(LoadPart(x + i, k), m));
    s0 = Add(s0, Keep(e, Zero(), k));
    if (kStore) StorePart(y + i, e, k);
  }
  return SumLanes(Add(s0, s1));
}

void Rows(Kind kind, const float* x, float* y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float max = RowMax(x, n);
    if (kind == Kind::kSoftmax) {
      const V scale = Set1(1.0f / RowExp<true>(x, y, n, max));
      int64_t i = 0;
      for (; i + kLanes <= n; i += kLanes) Store(y + i, Mul(Load(y + i), scale));
      if (i < n) StorePart(y + i, Mul(LoadPart(y + i, n - i), scale), n - i);
    } else {
      const V shift = Set1(logf(RowExp<false>(x, nullptr, n, max)));
      const V m = Set1(max);
      int64_t i = 0;
      for (; i + kLanes <= n; i += kLanes) Store(y + i, Sub(Sub(Load(x + i), m), shift));
      if (i < n) StorePart(y + i, Sub(Sub(LoadPart(x + i, n - i), m), shift), n - i);
    }
  }
}

void Columns(Kind kind, const float* x, float* y, int64_t n, int64_t stride, int64_t width) {
  for (int64_t j = 0; j < width; j += kLanes) {
    const int64_t k = width - j < kLanes ? width - j : kLanes;
    const float* p = x + j;
    float* q = y + j;
    V max = LoadPart(p, k);
    for (int64_t i = 1; i < n; ++i) max = Max(max, LoadPart(p + i * stride, k));
    V sum = Zero();
    if (kind == Kind::kSoftmax) {
      for (int64_t i = 0; i < n; ++i) {
        const V e = Exp(Sub(LoadPart(p + i * stride, k), max));
        sum = Add(sum, e);
        StorePart(q + i * stride, e, k);
      }
      const V scale = Div(Set1(1.0f), sum);
      for (int64_t i = 0; i < n; ++i) StorePart(q + i * stride, Mul(LoadPart(q + i * stride, k), scale), k);
    } else {
      for (int64_t i = 0; i < n; ++i) sum = Add(sum, Exp(Sub(LoadPart(p + i * stride, k), max)));
      float lanes[kLanes];
      Store(lanes, sum);
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] = logf(lanes[l]);
      const V shift = Load(lanes);
      for (int64_t i = 0; i < n; ++i) StorePart(q + i * stride, Sub(Sub(LoadPart(p + i * stride, k), max), shift), k);
    }
  }
}

}  // namespace
}  // namespace tenon::kernels::softmax
