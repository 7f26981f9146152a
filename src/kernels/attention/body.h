// The inner loops of f32 attention for one instruction set; included by avx2.cc and avx512.cc, which name the table.
//
// Keys are packed as panels of kCols keys, [panel][dim][kCols], so that scores come from broadcasts of q and plain loads of keys.
// Values are used as they are when v_dim is a multiple of the vector, else packed to rows padded with zeros.
#include "kernels/attention/inner.h"
#include "kernels/vec_f32.h"

namespace tenon::kernels::attention {
namespace {

constexpr int64_t kRows = 6;  // of a register tile
#if defined(__AVX512F__)
constexpr int kVecs = 4;
#else
constexpr int kVecs = 2;
#endif
constexpr int64_t kCols = kVecs * kLanes;

inline int64_t Up(int64_t n, int64_t m) {
  return (n + m - 1) / m * m;
}
inline int64_t Least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

bool PacksValues(const Core& core) {
  return core.v_dim % kLanes != 0;
}
int64_t ValueStep(const Core& core) {
  return PacksValues(core) ? Up(core.v_dim, kLanes) : core.v_step.seq;
}

ScratchSizes Scratch(const Core& core) {
  const int64_t held = Up(core.k_len <= kWholeKeys ? core.k_len : kKeyBlock, kCols);
  const int64_t rows = Up(kQueryBlock, kRows), width = Up(core.v_dim, kLanes);
  const int64_t few = kFewRows * (core.dim + Up(core.k_len, kLanes) + width);
  const int64_t block = rows * (core.dim + kKeyBlock + width + 2);
  return {Up(held * core.dim, 16), PacksValues(core) ? Up(held * width, 16) : 0, few > block ? few : block};
}

// c[r][v] (+)= sum over k of a[r * lda + k] * b[k * ldb + v], kRows x kV vectors.
template <int kV>
void Tile(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t k, float* c, int64_t ldc, bool add) {
  V acc[kRows][kV];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) acc[r][v] = add ? Load(c + r * ldc + v * kLanes) : Zero();
  }
  for (int64_t i = 0; i < k; ++i) {
    V row[kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) row[v] = Load(b + i * ldb + v * kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const V x = Set1(a[r * lda + i]);
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) acc[r][v] = Fma(x, row[v], acc[r][v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) Store(c + r * ldc + v * kLanes, acc[r][v]);
  }
}

void TileOf(int64_t vecs, const float* a, int64_t lda, const float* b, int64_t ldb, int64_t k, float* c, int64_t ldc, bool add) {
  switch (vecs) {
    case 1: return Tile<1>(a, lda, b, ldb, k, c, ldc, add);
#if defined(__AVX512F__)
    case 3: return Tile<3>(a, lda, b, ldb, k, c, ldc, add);
    case 4: return Tile<4>(a, lda, b, ldb, k, c, ldc, add);
#endif
    default: return Tile<2>(a, lda, b, ldb, k, c, ldc, add);
  }
}

// dst[j * ds + i] = src[i * ss + j] for an 8 x 8 block.
inline void Transpose8(const float* src, int64_t ss, float* dst, int64_t ds) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(src + i * ss);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(dst + i * ds, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(dst + (i + 4) * ds, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

void Pack(const Core& core, const float* k, const float* v, int64_t count, float* keys, float* values) {
  for (int64_t p = 0; p < count; p += kCols, keys += core.dim * kCols) {
    const int64_t n = Least(kCols, count - p);
    for (int64_t j = 0; j < Up(n, kLanes); j += 8) {
      const float* src = k + (p + j) * core.k_step.seq;
      float* dst = keys + j;
      int64_t d = 0;
      if (j + 8 <= n) {
        for (; d + 8 <= core.dim; d += 8) Transpose8(src + d, core.k_step.seq, dst + d * kCols, kCols);
      }
      for (; d < core.dim; ++d) {
        for (int64_t i = 0; i < 8; ++i) dst[d * kCols + i] = j + i < n ? src[i * core.k_step.seq + d] : 0.0f;
      }
    }
  }
  if (!PacksValues(core)) return;
  const int64_t width = Up(core.v_dim, kLanes);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t e = 0; e < width; e += kLanes) {
      Store(values + j * width + e, LoadPart(v + j * core.v_step.seq + e, Least(kLanes, core.v_dim - e)));
    }
  }
}

inline V Tanh(V x) {  // 1 - 2 / (e^2x + 1)
  return Sub(Set1(1.0f), Div(Set1(2.0f), Add(Exp(Add(x, x)), Set1(1.0f))));
}

// Softcap, mask and visibility on the scores s[0, n) of keys from j0 on; returns their maximum.
float Adjust(const Core& core, int64_t b, int64_t h, int64_t i, int64_t j0, int64_t n, float* s) {
  const KeyRange visible = VisibleKeys(core, b, i);
  const float inf = __builtin_inff();
  if (core.softcap > 0) {
    const V cap = Set1(core.softcap), inverse = Set1(1.0f / core.softcap);
    for (int64_t j = 0; j < n; j += kLanes) {
      const int64_t k = Least(kLanes, n - j);
      StorePart(s + j, Mul(cap, Tanh(Mul(LoadPart(s + j, k), inverse))), k);
    }
  }
  if (core.mask != nullptr) {
    const int64_t at = b * core.mask_batch + h * core.mask_head + i * core.mask_seq + j0 * core.mask_key;
    const int64_t end = Least(n, visible.last - j0);  // the mask may be shorter than the keys
    if (core.mask_is_bool) {
      const auto* m = static_cast<const bool*>(core.mask) + at;
      for (int64_t j = 0; j < end; ++j) s[j] = m[j * core.mask_key] ? s[j] : -inf;
    } else if (core.mask_key == 0) {
      const float m = static_cast<const float*>(core.mask)[at];
      for (int64_t j = 0; j < end; ++j) s[j] += m;
    } else {
      const float* m = static_cast<const float*>(core.mask) + at;
      for (int64_t j = 0; j < end; j += kLanes) {
        const int64_t k = Least(kLanes, end - j);
        StorePart(s + j, Add(LoadPart(s + j, k), LoadPart(m + j, k)), k);
      }
    }
  }
  const int64_t lo = Least(n, visible.first - j0), hi = visible.last - j0;
  for (int64_t j = 0; j < lo; ++j) s[j] = -inf;
  for (int64_t j = hi > 0 ? hi : 0; j < n; ++j) s[j] = -inf;
  V m = Set1(-inf);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) m = Max(m, Load(s + j));
  if (j < n) m = Max(m, Keep(LoadPart(s + j, n - j), m, n - j));
  return MaxLanes(m);
}

// s = exp(s - max); returns the sum.
float Exponents(float* s, int64_t n, float max) {
  const V m = Set1(max);
  V s0 = Zero(), s1 = Zero();
  int64_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    const V e0 = Exp(Sub(Load(s + j), m)), e1 = Exp(Sub(Load(s + j + kLanes), m));
    Store(s + j, e0), Store(s + j + kLanes, e1);
    s0 = Add(s0, e0), s1 = Add(s1, e1);
  }
  for (; j < n; j += kLanes) {
    const int64_t k = Least(kLanes, n - j);
    const V e = Keep(Exp(Sub(LoadPart(s + j, k), m)), Zero(), k);
    StorePart(s + j, e, k);
    s0 = Add(s0, e);
  }
  return SumLanes(Add(s0, s1));
}

void Softmax(const Core& core, int64_t b, int64_t h, int64_t i, int64_t n, float* s) {
  const float max = Adjust(core, b, h, i, 0, n, s);
  if (max == -__builtin_inff()) {  // nothing visible: -inf - -inf would be NaN
    for (int64_t j = 0; j < n; ++j) s[j] = s[j] == max ? 0.0f : s[j];
    return;
  }
  const V inverse = Set1(1.0f / Exponents(s, n, max));
  for (int64_t j = 0; j < n; j += kLanes) {
    const int64_t k = Least(kLanes, n - j);
    StorePart(s + j, Mul(LoadPart(s + j, k), inverse), k);
  }
}

// The running state of one block of queries.
struct State {
  float *q, *s, *o, *max, *sum;
  int64_t width;  // of a row of o
};

State Lay(const Core& core, float* work) {
  const int64_t rows = Up(kQueryBlock, kRows), width = Up(core.v_dim, kLanes);
  float* s = work + rows * core.dim;
  float* o = s + rows * kKeyBlock;
  return {work, s, o, o + rows * width, o + rows * width + rows, width};
}

// Softmax of one block of scores against the running maximum, row by row; rescales o.
void Rescale(const Core& core, const State& st, int64_t b, int64_t h, int64_t first, int64_t rows, int64_t j0, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    float* s = st.s + r * kKeyBlock;
    const float block_max = Adjust(core, b, h, first + r, j0, n, s);
    const float max = st.max[r] > block_max ? st.max[r] : block_max;
    if (max == -__builtin_inff()) {  // nothing visible yet: -inf - -inf would be NaN
      for (int64_t j = 0; j < n; ++j) s[j] = s[j] == max ? 0.0f : s[j];
      continue;
    }
    const float sum = Exponents(s, n, max);
    float factor = 1.0f;
    if (st.max[r] == -__builtin_inff()) {  // o and the sum are still 0
      factor = 0.0f;
    } else if (max != st.max[r]) {
      float lanes[kLanes];
      Store(lanes, Exp(Set1(st.max[r] - max)));
      factor = lanes[0];
      const V f = Set1(factor);
      for (int64_t e = 0; e < st.width; e += kLanes) {
        float* o = st.o + r * st.width + e;
        Store(o, Mul(Load(o), f));
      }
    }
    st.sum[r] = st.sum[r] * factor + sum;
    st.max[r] = max;
  }
}

void Block(const Core& core, int64_t b, int64_t h, int64_t first, int64_t rows, bool packed, float* keys, float* values,
           float* work) {
  const int64_t g = h / (core.heads / core.kv_heads);
  const float* q = static_cast<const float*>(core.q) + b * core.q_step.batch + h * core.q_step.head + first * core.q_step.seq;
  const float* k = static_cast<const float*>(core.k) + b * core.k_step.batch + g * core.k_step.head;
  const float* v = static_cast<const float*>(core.v) + b * core.v_step.batch + g * core.v_step.head;
  float* y = static_cast<float*>(core.y) + b * core.y_step.batch + h * core.y_step.head + first * core.y_step.seq;
  const State st = Lay(core, work);
  const int64_t tiles = Up(rows, kRows);
  int64_t from = core.k_len, to = 0;
  for (int64_t r = 0; r < tiles; ++r) {
    for (int64_t d = 0; d < core.dim; d += kLanes) {
      const int64_t n = Least(kLanes, core.dim - d);
      const V x = r < rows ? LoadPart(q + r * core.q_step.seq + d, n) : Zero();
      StorePart(st.q + r * core.dim + d, Mul(x, Set1(core.scale)), n);
    }
    for (int64_t e = 0; e < st.width; e += kLanes) Store(st.o + r * st.width + e, Zero());
    st.max[r] = -__builtin_inff();
    st.sum[r] = 0;
    if (r >= rows) continue;
    const KeyRange visible = VisibleKeys(core, b, first + r);
    if (visible.first >= visible.last) continue;
    from = Least(from, visible.first);
    to = to > visible.last ? to : visible.last;
  }
  const int64_t v_step = ValueStep(core);
  for (int64_t j0 = from / kKeyBlock * kKeyBlock; j0 < to; j0 += kKeyBlock) {
    const int64_t n = Least(kKeyBlock, to - j0);
    const float* kb = keys;
    const float* vb = PacksValues(core) ? values : v + j0 * v_step;
    if (packed) {
      kb += j0 * core.dim;
      if (PacksValues(core)) vb += j0 * v_step;
    } else {
      Pack(core, k + j0 * core.k_step.seq, v + j0 * core.v_step.seq, n, keys, values);
    }
    for (int64_t p = 0; p < n; p += kCols) {
      const int64_t vecs = Up(Least(kCols, n - p), kLanes) / kLanes;
      for (int64_t r = 0; r < tiles; r += kRows) {
        TileOf(vecs, st.q + r * core.dim, core.dim, kb + p * core.dim, kCols, core.dim, st.s + r * kKeyBlock + p, kKeyBlock,
               false);
      }
    }
    Rescale(core, st, b, h, first, rows, j0, n);
    for (int64_t r = 0; r < tiles; r += kRows) {
      for (int64_t e = 0; e < st.width; e += kCols) {
        TileOf(Least(kCols, st.width - e) / kLanes, st.s + r * kKeyBlock, kKeyBlock, vb + e, v_step, n, st.o + r * st.width + e,
               st.width, true);
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const V inverse = Set1(st.sum[r] == 0 ? 0.0f : 1.0f / st.sum[r]);
    for (int64_t e = 0; e < core.v_dim; e += kLanes) {
      StorePart(y + r * core.y_step.seq + e, Mul(Load(st.o + r * st.width + e), inverse), Least(kLanes, core.v_dim - e));
    }
  }
}

float Dot(const float* a, const float* b, int64_t n) {
  V s0 = Zero(), s1 = Zero();
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    s0 = Fma(Load(a + i), Load(b + i), s0);
    s1 = Fma(Load(a + i + kLanes), Load(b + i + kLanes), s1);
  }
  for (; i < n; i += kLanes) {
    const int64_t k = Least(kLanes, n - i);
    s0 = Fma(LoadPart(a + i, k), LoadPart(b + i, k), s0);
  }
  return SumLanes(Add(s0, s1));
}

// o[0, width) = sum over j of p[j] * v[j * step], width <= 4 vectors.
void WeightedRows(const float* p, const float* v, int64_t step, int64_t n, int64_t width, float* o) {
  V a0 = Zero(), a1 = Zero(), a2 = Zero(), a3 = Zero();
  if (width == 4 * kLanes) {
    for (int64_t j = 0; j < n; ++j, v += step) {
      const V w = Set1(p[j]);
      a0 = Fma(w, Load(v), a0);
      a1 = Fma(w, Load(v + kLanes), a1);
      a2 = Fma(w, Load(v + 2 * kLanes), a2);
      a3 = Fma(w, Load(v + 3 * kLanes), a3);
    }
    Store(o, a0), Store(o + kLanes, a1), Store(o + 2 * kLanes, a2), Store(o + 3 * kLanes, a3);
    return;
  }
  for (int64_t e = 0; e < width; e += kLanes) {
    const int64_t k = Least(kLanes, width - e);
    V even = Zero(), odd = Zero();
    int64_t j = 0;
    for (; j + 2 <= n; j += 2) {
      even = Fma(Set1(p[j]), LoadPart(v + j * step + e, k), even);
      odd = Fma(Set1(p[j + 1]), LoadPart(v + (j + 1) * step + e, k), odd);
    }
    if (j < n) even = Fma(Set1(p[j]), LoadPart(v + j * step + e, k), even);
    StorePart(o + e, Add(even, odd), k);
  }
}

void Few(const Core& core, int64_t b, int64_t g, float* work) {
  const int64_t group = core.heads / core.kv_heads, rows = group * core.q_len, width = Up(core.v_dim, kLanes);
  const int64_t stride = Up(core.k_len, kLanes);
  float* q = work;
  float* s = q + kFewRows * core.dim;
  float* o = s + kFewRows * stride;
  const float* k = static_cast<const float*>(core.k) + b * core.k_step.batch + g * core.k_step.head;
  const float* v = static_cast<const float*>(core.v) + b * core.v_step.batch + g * core.v_step.head;
  int64_t from = core.k_len, to = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t h = g * group + r / core.q_len, i = r % core.q_len;
    const float* src = static_cast<const float*>(core.q) + b * core.q_step.batch + h * core.q_step.head + i * core.q_step.seq;
    for (int64_t d = 0; d < core.dim; ++d) q[r * core.dim + d] = src[d] * core.scale;
    const KeyRange visible = VisibleKeys(core, b, i);
    if (visible.first >= visible.last) continue;
    from = Least(from, visible.first);
    to = to > visible.last ? to : visible.last;
  }
  const int64_t n = to > from ? to - from : 0;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t r = 0; r < rows; ++r) s[r * stride + j] = Dot(q + r * core.dim, k + (from + j) * core.k_step.seq, core.dim);
  }
  float sums[kFewRows];
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t h = g * group + r / core.q_len, i = r % core.q_len;
    const float max = n > 0 ? Adjust(core, b, h, i, from, n, s + r * stride) : -__builtin_inff();
    sums[r] = 0;
    if (max != -__builtin_inff()) {
      sums[r] = Exponents(s + r * stride, n, max);
    } else {
      for (int64_t j = 0; j < n; ++j) s[r * stride + j] = s[r * stride + j] == max ? 0.0f : s[r * stride + j];
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t e = 0; e < core.v_dim; e += 4 * kLanes) {
      WeightedRows(s + r * stride, v + from * core.v_step.seq + e, core.v_step.seq, n, Least(4 * kLanes, core.v_dim - e),
                   o + r * width + e);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t h = g * group + r / core.q_len, i = r % core.q_len;
    float* y = static_cast<float*>(core.y) + b * core.y_step.batch + h * core.y_step.head + i * core.y_step.seq;
    const V inverse = Set1(sums[r] == 0 ? 0.0f : 1.0f / sums[r]);
    for (int64_t e = 0; e < core.v_dim; e += kLanes) {
      StorePart(y + e, Mul(Load(o + r * width + e), inverse), Least(kLanes, core.v_dim - e));
    }
  }
}

}  // namespace
}  // namespace tenon::kernels::attention
