// The inner functions over sixteen floats at a time; included by each ISA file after its V.

static inline void Softcap(float cap, float* s) {
  // cap * tanh(s / cap) = cap * (1 - 2 / (e^(2 s / cap) + 1))
  for (int i = 0; i < 64; i += 16) {
    const V e = Exp(Mul(Load(s + i), Set(2.0f / cap)));
    Store(s + i, Mul(Set(cap), Sub(Set(1.0f), Div(Set(2.0f), Add(e, Set(1.0f))))));
  }
}

static inline V LoadElements(const F16* p) {
  return LoadH(&p->bits);
}
static inline V LoadElements(const Bf16* p) {
  return LoadB(&p->bits);
}
static inline V LoadElements(const float* p) {
  return Load(p);
}
static inline V LoadElements(const Q8* p) {
  return LoadI8(&p->number);
}
static inline void StoreElements(F16* p, V v) {
  StoreH(&p->bits, v);
}
static inline void StoreElements(Bf16* p, V v) {
  StoreB(&p->bits, v);
}
static inline void StoreElements(float* p, V v) {
  Store(p, v);
}

// Scales of q8_0 follow the elements: of block i of all 64 tokens at 64 i.
template <typename E>
inline constexpr bool kScaled = false;
template <>
inline constexpr bool kScaled<Q8> = true;

static inline const uint16_t* ScalesOf(const Q8* elements, int64_t dim, int64_t first) {
  return reinterpret_cast<const uint16_t*>(elements + dim * 64) + first / kQ8Block * 64;
}

// `n` elements that are read soon.
template <typename E>
static inline void Fetch(const E* p, int64_t n) {
  for (const E* end = p + n; p < end; p += 64 / sizeof(E)) __builtin_prefetch(p);
}

// Products of the queries with the keys of 64 tokens: s[h][0, 64). Fetches as many elements of `next`.
template <typename E, int kHeads>
static inline void Scores(const RowTask& t, const E* keys, const E* next, float* scores) {
  const int64_t part = kScaled<E> ? kQ8Block : t.dim;
  for (int64_t first = 0; first < t.dim; first += part) {
    V s[kHeads][4];
#pragma GCC unroll 4
    for (auto& head : s) head[0] = head[1] = head[2] = head[3] = Zero();
    const E* k = keys + first * 64;
    for (int64_t d = first; d < first + part; ++d, k += 64) {
      Fetch(next + d * 64, 64);
      const V k0 = LoadElements(k), k1 = LoadElements(k + 16), k2 = LoadElements(k + 32), k3 = LoadElements(k + 48);
#pragma GCC unroll 4
      for (int h = 0; h < kHeads; ++h) {
        const V q = Set(t.q[h * t.dim + d]);
        s[h][0] = Fma(k0, q, s[h][0]), s[h][1] = Fma(k1, q, s[h][1]);
        s[h][2] = Fma(k2, q, s[h][2]), s[h][3] = Fma(k3, q, s[h][3]);
      }
    }
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        float* to = scores + h * 64 + i * 16;
        if constexpr (kScaled<E>) {
          const V scale = LoadH(ScalesOf(keys, t.dim, first) + i * 16);
          s[h][i] = first == 0 ? Mul(s[h][i], scale) : Fma(s[h][i], scale, Load(to));
        }
        Store(to, s[h][i]);
      }
    }
  }
}

// o += weights [kHeads][64] times the values of tokens [begin, end). Fetches as many elements of `next`.
template <typename E, int kHeads>
static inline void AddValues(const RowTask& t, const E* values, const E* next, const float* weights, int64_t begin, int64_t end,
                             float* o) {
  [[maybe_unused]] float scaled[kHeads * 64];
  for (int64_t d = 0; d < t.dim; d += 32) {
    const bool two = d + 16 < t.dim;
    const float* w = weights;
    if constexpr (kScaled<E>) {
      w = scaled;
      const uint16_t* scales = ScalesOf(values, t.dim, d);
      for (int i = 0; i < 64; i += 16) {
        const V scale = LoadH(scales + i);
#pragma GCC unroll 4
        for (int h = 0; h < kHeads; ++h) Store(scaled + h * 64 + i, Mul(Load(weights + h * 64 + i), scale));
      }
    }
    V a[kHeads][2];
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
      a[h][0] = Load(o + h * t.dim + d);
      a[h][1] = two ? Load(o + h * t.dim + d + 16) : Zero();
    }
    for (int64_t i = begin; i < end; ++i) {
      Fetch(next + d * 64 + i * (two ? 32 : 16), two ? 32 : 16);
      const E* v = values + i * t.dim + d;
      const V v0 = LoadElements(v), v1 = two ? LoadElements(v + 16) : Zero();
#pragma GCC unroll 4
      for (int h = 0; h < kHeads; ++h) {
        const V weight = Set(w[h * 64 + i]);
        a[h][0] = Fma(v0, weight, a[h][0]), a[h][1] = Fma(v1, weight, a[h][1]);
      }
    }
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
      Store(o + h * t.dim + d, a[h][0]);
      if (two) Store(o + h * t.dim + d + 16, a[h][1]);
    }
  }
}

// Online softmax over blocks of 64 tokens: o and sum are of what has been seen, relative to e^max.
template <typename E, int kHeads>
void RowOf(const RowTask& t) {
  float o[kHeads * kMaxDim], p[kHeads * 64], max[kHeads], sum[kHeads];
  for (int h = 0; h < kHeads; ++h) max[h] = kNever, sum[h] = 0;
  for (int64_t i = 0; i < kHeads * t.dim; i += 16) Store(o + i, Zero());
  for (int64_t b = t.first / 64; b * 64 < t.last; ++b) {
    const auto* keys = reinterpret_cast<const E*>(t.cache.Keys(b));
    const auto* values = reinterpret_cast<const E*>(t.cache.Values(b));
    const auto* next = (b + 1) * 64 < t.fetch_end ? reinterpret_cast<const E*>(t.cache.Keys(b + 1)) : keys;
    Scores<E, kHeads>(t, keys, values, p);
    const int64_t begin = t.first > b * 64 ? t.first - b * 64 : 0, end = t.last - b * 64 < 64 ? t.last - b * 64 : 64;
    for (int h = 0; h < kHeads; ++h) {
      float* e = p + h * 64;
      for (int i = 0; i < 64; i += 16) Store(e + i, Mul(Load(e + i), Set(t.scale)));
      if (t.softcap > 0) Softcap(t.softcap, e);
      for (int64_t i = 0; i < begin; ++i) e[i] = kNever;
      for (int64_t i = end; i < 64; ++i) e[i] = kNever;
      const float m = MaxOf(Max(Max(Load(e), Load(e + 16)), Max(Load(e + 32), Load(e + 48))));
      const float now = m > max[h] ? m : max[h];
      V all = Zero();
      for (int i = 0; i < 64; i += 16) {
        const V v = Exp(Sub(Load(e + i), Set(now)));
        Store(e + i, v);
        all = Add(all, v);
      }
      float c[16];
      Store(c, Exp(Set(max[h] - now)));
      sum[h] = sum[h] * c[0] + SumOf(all);
      max[h] = now;
      for (int64_t d = 0; d < t.dim; d += 16) Store(o + h * t.dim + d, Mul(Load(o + h * t.dim + d), Set(c[0])));
    }
    AddValues<E, kHeads>(t, values, next, p, begin, end, o);
  }
  for (int h = 0; h < kHeads; ++h) {
    float* y = t.y + h * t.y_step;
    const V factor = Set(t.part ? 1.0f : sum[h] > 0 ? 1.0f / sum[h] : 0.0f);
    for (int64_t d = 0; d < t.dim; d += 16) Store(y + d, Mul(Load(o + h * t.dim + d), factor));
    if (t.part) y[t.dim] = max[h], y[t.dim + 1] = sum[h];
  }
}

template <typename E>
void Row(const RowTask& t) {
  switch (t.heads) {
    case 1: RowOf<E, 1>(t); break;
    case 2: RowOf<E, 2>(t); break;
    case 3: RowOf<E, 3>(t); break;
    default: RowOf<E, 4>(t); break;
  }
}

void Turn(const TurnTask& t) {
  const float* x = t.x;
  if (t.norm != nullptr) {
    float squares = 0;
    for (int64_t i = 0; i < t.dim; ++i) squares += x[i] * x[i];
    const float inverse = 1.0f / __builtin_sqrtf(squares / static_cast<float>(t.dim) + t.epsilon);
    for (int64_t i = 0; i < t.dim; ++i) t.to[i] = x[i] * inverse * t.norm[i];
    x = t.to;
  }
  const int64_t step = t.interleaved ? 2 : 1, other = t.interleaved ? 1 : t.half;
  int64_t i = 0;
  for (; i + 16 <= t.half; i += 16) {
    V a = Zero(), b = Zero();
    if (t.interleaved) {
      LoadPairs(x + 2 * i, &a, &b);
    } else {
      a = Load(x + i), b = Load(x + i + other);
    }
    const V cos = Load(t.cos + i), sin = Load(t.sin + i);
    const V turned = Sub(Mul(a, cos), Mul(b, sin)), other_turned = Add(Mul(b, cos), Mul(a, sin));
    if (t.interleaved) {
      StorePairs(t.to + 2 * i, turned, other_turned);
      continue;
    }
    Store(t.to + i, turned);
    Store(t.to + i + other, other_turned);
  }
  for (; i < t.half; ++i) {
    const float a = x[i * step], b = x[i * step + other];
    t.to[i * step] = a * t.cos[i] - b * t.sin[i];
    t.to[i * step + other] = b * t.cos[i] + a * t.sin[i];
  }
  if (x == t.to) return;
  for (i = 2 * t.half; i < t.dim; ++i) t.to[i] = x[i];
}

template <typename E>
void StoreToken(const float* x, const Kept& kept, int64_t t) {
  E* to = reinterpret_cast<E*>(kept.data) + (kept.turned ? t : t * kept.dim);
  for (int64_t i = 0; i < kept.dim; i += 16) {
    if (!kept.turned) {
      StoreElements(to + i, Load(x + i));
      continue;
    }
    E block[16];
    StoreElements(block, Load(x + i));
    for (int64_t j = 0; j < 16; ++j) to[(i + j) * 64] = block[j];
  }
}
template <>
void StoreToken<Q8>(const float* x, const Kept& kept, int64_t t) {
  Q8* elements = reinterpret_cast<Q8*>(kept.data);
  Q8* to = elements + (kept.turned ? t : t * kept.dim);
  const int64_t step = kept.turned ? 64 : 1;
  auto* scales = reinterpret_cast<uint16_t*>(elements + kept.dim * 64) + t;
  for (int64_t i = 0; i < kept.dim; i += kQ8Block, scales += 64) {
    const V a = Load(x + i), b = Load(x + i + 16);
    // What is not finite makes NaN of the scale, and so of the block.
    const float nothing = SumOf(Fma(a, Zero(), Mul(b, Zero())));
    const float scale = MaxOf(Max(Abs(a), Abs(b))) / 127.0f + nothing, inverse = scale > kLeastScale ? 1.0f / scale : 0.0f;
    float rounded[kQ8Block];
    uint16_t scale_bits[16];
    // NaN becomes a number that int8 has.
    Store(rounded, Max(RoundV(Mul(a, Set(inverse))), Set(-127.0f)));
    Store(rounded + 16, Max(RoundV(Mul(b, Set(inverse))), Set(-127.0f)));
    StoreH(scale_bits, Set(scale));
    *scales = scale_bits[0];
    for (int64_t j = 0; j < kQ8Block; ++j) to[(i + j) * step].number = static_cast<int8_t>(rounded[j]);
  }
}

template <typename E>
void LoadTokens(const Kept& kept, int64_t tokens, float* to) {
  const E* from = reinterpret_cast<const E*>(kept.data);
  const int64_t n = kept.dim * (kept.turned ? 64 : tokens);
  for (int64_t i = 0; i < n; i += 16) Store(to + i, LoadElements(from + i));
}
template <>
void LoadTokens<Q8>(const Kept& kept, int64_t tokens, float* to) {
  const Q8* from = reinterpret_cast<const Q8*>(kept.data);
  for (int64_t d = 0; d < kept.dim; d += kQ8Block) {
    float scales[64];
    for (int i = 0; i < 64; i += 16) Store(scales + i, LoadH(ScalesOf(from, kept.dim, d) + i));
    for (int64_t i = 0; i < kQ8Block && kept.turned; ++i) {
      const int64_t at = (d + i) * 64;
      for (int64_t t = 0; t < 64; t += 16) Store(to + at + t, Mul(LoadElements(from + at + t), Load(scales + t)));
    }
    for (int64_t t = 0; t < tokens && !kept.turned; ++t) {
      const int64_t at = t * kept.dim + d;
      const V scale = Set(scales[t]);
      Store(to + at, Mul(LoadElements(from + at), scale));
      Store(to + at + 16, Mul(LoadElements(from + at + 16), scale));
    }
  }
}

template <typename E>
constexpr Access AccessOf() {
  return {Row<E>, StoreToken<E>, LoadTokens<E>};
}

// e^x for x <= 0, to five digits: what it is for is rounded to bf16.
static inline V ExpBelow(V x) {
  x = Max(x, Set(-110.0f));
  const V n = RoundV(Mul(x, Set(1.44269504088896341f)));
  const V r = Fma(n, Set(-0.693147180559945309f), x);
  V p = Set(4.18756445e-2f);
  p = Fma(p, r, Set(1.67921430e-1f));
  p = Fma(p, r, Set(4.99993721e-1f));
  p = Fma(p, r, Set(9.99962295e-1f));
  p = Fma(p, r, Set(1.0f));
  return Scale2(p, n);
}

// Scores of tokens before `begin` and from `end` on become kNever; all pass the softcap first.
static inline void Bound(float softcap, int64_t begin, int64_t end, float* w, V* s) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) Store(w + i * 16, s[i]);
  if (softcap > 0) Softcap(softcap, w);
  for (int64_t i = 0; i < 64 && i < begin; ++i) w[i] = kNever;
  for (int64_t i = end < 0 ? 0 : end; i < 64; ++i) w[i] = kNever;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) s[i] = Load(w + i * 16);
}

void Weigh(const WeighTask& task) {
  const WeighTask t = task;   // what is stored here might be it, for all the compiler knows
  for (int64_t r = 0; r < t.rows; ++r) {
    float* w = t.weights + r * 64;
    V s[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) s[i] = Mul(Load(t.scores + i / 2 * 1024 + r * 32 + i % 2 * 16), Set(t.scale));
    const int64_t end = t.position + r + 1 - t.first_token, begin = t.window > 0 && end > t.window ? end - t.window : 0;
    if (begin > 0 || end < 64 || t.softcap > 0) Bound(t.softcap, begin, end, w, s);
    const float most = MaxOf(Max(Max(s[0], s[1]), Max(s[2], s[3])));
    if (most <= kNever) {   // nothing of this block is seen
      for (int i = 0; i < 4; ++i) Store(w + i * 16, Zero());
      continue;
    }
    float max = t.max[r];
    V sum = Load(t.sum + r * 16);
    if (most > max) {
      float c[16];
      Store(c, Exp(Set(max - most)));
      sum = Mul(sum, Set(c[0]));
      t.max[r] = max = most;
      for (int64_t d = 0; d < t.dim; d += 16) Store(t.o + r * t.dim + d, Mul(Load(t.o + r * t.dim + d), Set(c[0])));
    }
    const V shift = Set(max);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      s[i] = ExpBelow(Sub(s[i], shift));
      Store(w + i * 16, s[i]);
    }
    Store(t.sum + r * 16, Add(sum, Add(Add(s[0], s[1]), Add(s[2], s[3]))));
  }
}

void AddTile(const AddTask& t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    float* o = t.o + r * t.o_step;
    const float* acc = t.acc + r * 32;
    Store(o, Add(Load(o), Load(acc)));
    Store(o + 16, Add(Load(o + 16), Load(acc + 16)));
  }
}

void Divide(const DivideTask& t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    const float sum = SumOf(Load(t.sum + r * 16));
    const V inverse = Set(sum > 0 ? 1.0f / sum : 0.0f);
    for (int64_t d = 0; d < t.dim; d += 16) Store(t.y + r * t.y_step + d, Mul(Load(t.o + r * t.dim + d), inverse));
  }
}
