// The inner loops of f32 resizing for one instruction set; included by avx2.cc and avx512.cc, which name the table.
#include "kernels/resize/inner.h"
#include "kernels/vec_f32.h"

namespace tenon::kernels::resize {
namespace {

#if defined(__AVX512F__)
using I = __m512i;
inline I LoadI(const int32_t* p) {
  return _mm512_loadu_si512(p);
}
inline I Iota() {
  return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
inline I Times(I a, int32_t b) {
  return _mm512_mullo_epi32(a, _mm512_set1_epi32(b));
}
inline V Gather(const float* p, I i) {
  return _mm512_i32gather_ps(i, p, 4);
}
inline I GatherI(const int32_t* p, I i) {
  return _mm512_i32gather_epi32(i, p, 4);
}
inline I Shift(I a, int n) {
  return _mm512_srlv_epi32(a, _mm512_set1_epi32(n));
}
inline V Permute(V v, I i) {
  return _mm512_permutexvar_ps(i, v);
}
#else
using I = __m256i;
inline I LoadI(const int32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline I Iota() {
  return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}
inline I Times(I a, int32_t b) {
  return _mm256_mullo_epi32(a, _mm256_set1_epi32(b));
}
inline V Gather(const float* p, I i) {
  return _mm256_i32gather_ps(p, i, 4);
}
inline I GatherI(const int32_t* p, I i) {
  return _mm256_i32gather_epi32(p, i, 4);
}
inline I Shift(I a, int n) {
  return _mm256_srlv_epi32(a, _mm256_set1_epi32(n));
}
inline V Permute(V v, I i) {
  return _mm256_permutevar8x32_ps(v, i);
}
#endif

void Blend(const float* x, int64_t step, const int32_t* index, const float* weight, int64_t taps, float* y, int64_t n) {
  if (taps == 2) {
    const float *a = x + index[0] * step, *b = x + index[1] * step;
    const V wa = Set1(weight[0]), wb = Set1(weight[1]);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) Store(y + i, Fma(Load(b + i), wb, Mul(Load(a + i), wa)));
    if (i < n) StorePart(y + i, Fma(LoadPart(b + i, n - i), wb, Mul(LoadPart(a + i, n - i), wa)), n - i);
    return;
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t k = n - i < kLanes ? n - i : kLanes;
    V acc = Zero();
    for (int64_t t = 0; t < taps; ++t) acc = Fma(LoadPart(x + index[t] * step + i, k), Set1(weight[t]), acc);
    StorePart(y + i, acc, k);
  }
}

// x[i[lane]] for indices in [first, first + kSpan): a permutation of loaded vectors instead of a gather.
inline V Near(const float* x, int64_t in, int32_t first, I i) {
  const int64_t left = in - first;
#if defined(__AVX512F__)
  const I local = _mm512_sub_epi32(i, _mm512_set1_epi32(first));
  if (left >= 2 * kLanes) return _mm512_permutex2var_ps(Load(x + first), local, Load(x + first + kLanes));
  const V low = LoadPart(x + first, left < kLanes ? left : kLanes);
  const int64_t more = left - kLanes;
  const V high = more <= 0 ? Zero() : LoadPart(x + first + kLanes, more < kLanes ? more : kLanes);
  return _mm512_permutex2var_ps(low, local, high);
#else
  const I local = _mm256_sub_epi32(i, _mm256_set1_epi32(first));
  return _mm256_permutevar8x32_ps(left >= kLanes ? Load(x + first) : LoadPart(x + first, left), local);
#endif
}
#if defined(__AVX512F__)
constexpr int32_t kSpan = 2 * kLanes;
#else
constexpr int32_t kSpan = kLanes;
#endif

void GatherRow(const float* x, int64_t in, const int32_t* index, const float* weight, int64_t taps, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V acc = Zero();
    for (int64_t t = 0; t < taps; ++t) {
      const int32_t* at = index + t * n + i;
      const bool near = at[kLanes - 1] >= at[0] && at[kLanes - 1] - at[0] < kSpan;
      const V v = near ? Near(x, in, at[0], LoadI(at)) : Gather(x, LoadI(at));
      acc = Fma(v, Load(weight + t * n + i), acc);
    }
    Store(y + i, acc);
  }
  for (; i < n; ++i) {
    float acc = 0;
    for (int64_t t = 0; t < taps; ++t) acc = __builtin_fmaf(x[index[t * n + i]], weight[t * n + i], acc);
    y[i] = acc;
  }
}

void Sample(const float* x, const int32_t* index, const float* weight, int64_t taps, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V acc = Zero();
    for (int64_t t = 0; t < taps; ++t) {
      const V w = Load(weight + t * n + i);
      const I at = LoadI(index + t * n + i);
#if defined(__AVX512F__)
      const V v = _mm512_mask_i32gather_ps(Zero(), _mm512_cmp_ps_mask(w, Zero(), _CMP_NEQ_UQ), at, x, 4);
#else
      const V v = _mm256_mask_i32gather_ps(Zero(), x, at, _mm256_cmp_ps(w, Zero(), _CMP_NEQ_UQ), 4);
#endif
      acc = Fma(v, w, acc);
    }
    Store(y + i, acc);
  }
  for (; i < n; ++i) {
    float acc = 0;
    for (int64_t t = 0; t < taps; ++t) {
      const float w = weight[t * n + i];
      if (w != 0) acc = __builtin_fmaf(x[index[t * n + i]], w, acc);
    }
    y[i] = acc;
  }
}

void Pick(const float* x, const int32_t* index, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(y + i, Gather(x, LoadI(index + i)));
  for (; i < n; ++i) y[i] = x[index[i]];
}

void Repeat(const float* x, int shift, float* y, int64_t n) {
  const I lanes = Shift(Iota(), shift);
  const int64_t read = kLanes >> shift;
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t k = n - i < kLanes ? n - i : kLanes;
    StorePart(y + i, Permute(LoadPart(x + (i >> shift), ((k - 1) >> shift) + 1 < read ? ((k - 1) >> shift) + 1 : read), lanes),
              k);
  }
}

}  // namespace
}  // namespace tenon::kernels::resize
