// Body of the per-ISA files of the packed recurrent kernels: include after defining, in an anonymous namespace, the type Vec with
// kLanes, and Load, Store, Set, Add, Sub, Mul, Div, MulAdd(a, b, c) = a*b + c, Min, Max, Abs, CopySign(magnitude, sign),
// Less(a, b) and Select(mask, yes, no), Exp2Scale(x, n) = x * 2^n (n integral), Round.
// Everything here has internal linkage, so that each ISA keeps its own copy.

// exp on [-88, 88] after Cephes (expf): relative error below 2^-22.
static inline Vec Exp(Vec x) {
  x = Min(Set(88.0f), Max(Set(-88.0f), x));  // Max, Min return their second operand when it is NaN
  const Vec n = Round(Mul(x, Set(1.44269504088896341f)));
  Vec r = MulAdd(n, Set(-0.693359375f), x);
  r = MulAdd(n, Set(2.12194440e-4f), r);
  Vec p = Set(1.9875691500e-4f);
  p = MulAdd(p, r, Set(1.3981999507e-3f));
  p = MulAdd(p, r, Set(8.3334519073e-3f));
  p = MulAdd(p, r, Set(4.1665795894e-2f));
  p = MulAdd(p, r, Set(1.6666665459e-1f));
  p = MulAdd(p, r, Set(5.0000001201e-1f));
  p = MulAdd(Mul(r, r), p, Add(r, Set(1.0f)));
  return Exp2Scale(p, n);
}

static inline Vec Sigmoid(Vec x) {
  return Div(Set(1.0f), Add(Set(1.0f), Exp(Sub(Set(0.0f), x))));
}

// tanh after Cephes (tanhf): an odd polynomial below 0.625, (1 - e) / (1 + e) with e = exp(-2|x|) above.
static inline Vec Tanh(Vec x) {
  const Vec a = Abs(x);
  const Vec e = Exp(Mul(Set(-2.0f), a));
  const Vec far = CopySign(Div(Sub(Set(1.0f), e), Add(Set(1.0f), e)), x);
  const Vec z = Mul(x, x);
  Vec p = Set(-5.70498872745e-3f);
  p = MulAdd(p, z, Set(2.06390887954e-2f));
  p = MulAdd(p, z, Set(-5.37397155531e-2f));
  p = MulAdd(p, z, Set(1.33314422036e-1f));
  p = MulAdd(p, z, Set(-3.33332819422e-1f));
  const Vec near = MulAdd(Mul(p, z), x, x);
  return Select(Less(a, Set(0.625f)), near, far);
}

static inline Vec Clip(Vec x, Vec bound) {
  return Min(bound, Max(Sub(Set(0.0f), bound), x));
}

template <int kRows, int kVectors>
static void Tile(const float* const* a, int64_t k, const float* panel, const float* init, float* const* out) {
  Vec acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const Vec start = init != nullptr ? Load(init + v * kLanes) : Set(0.0f);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) acc[i][v] = start;
  }
  const float* rows[kRows];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) rows[i] = a[i];
  for (int64_t j = 0; j < k; ++j) {
    Vec x[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) x[i] = Set(rows[i][j]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const Vec w = Load(panel + v * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) acc[i][v] = MulAdd(x[i], w, acc[i][v]);
    }
    panel += kVectors * kLanes;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) Store(out[i] + v * kLanes, acc[i][v]);
  }
}

// One row alone has too few independent sums to hide the latency of a fused multiply-add: two sums per vector, even and odd k.
template <int kVectors>
static void TileOneRow(const float* const* a, int64_t k, const float* panel, const float* init, float* const* out) {
  Vec even[kVectors];
  Vec odd[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    even[v] = init != nullptr ? Load(init + v * kLanes) : Set(0.0f);
    odd[v] = Set(0.0f);
  }
  const float* row = a[0];
  int64_t j = 0;
  for (; j + 2 <= k; j += 2) {
    const Vec x0 = Set(row[j]);
    const Vec x1 = Set(row[j + 1]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) even[v] = MulAdd(x0, Load(panel + v * kLanes), even[v]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) odd[v] = MulAdd(x1, Load(panel + (kVectors + v) * kLanes), odd[v]);
    panel += 2 * kVectors * kLanes;
  }
  if (j < k) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) even[v] = MulAdd(Set(row[j]), Load(panel + v * kLanes), even[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) Store(out[0] + v * kLanes, Add(even[v], odd[v]));
}

template <int kVectors>
static void Product(int rows, const float* const* a, int64_t k, const float* panel, const float* init, float* const* out) {
  switch (rows) {
    case 1: return TileOneRow<kVectors>(a, k, panel, init, out);
    case 2: return Tile<2, kVectors>(a, k, panel, init, out);
    case 3: return Tile<3, kVectors>(a, k, panel, init, out);
#if TENON_RNN_ROWS > 3
    case 4: return Tile<4, kVectors>(a, k, panel, init, out);
    case 5: return Tile<5, kVectors>(a, k, panel, init, out);
    case 6: return Tile<6, kVectors>(a, k, panel, init, out);
#endif
    default: return;
  }
}

static inline Vec Pre(const GateArgs& g, int gate) {
  return Add(Load(g.tile + gate * g.tile_stride), Load(g.x + gate * g.x_stride));
}

static void RnnTanh(const GateArgs& g) {
  Store(g.h_next, Tanh(Clip(Pre(g, 0), Set(g.clip))));
}

static void RnnRelu(const GateArgs& g) {
  Store(g.h_next, Max(Set(0.0f), Clip(Pre(g, 0), Set(g.clip))));
}

static void GruLinear(const GateArgs& g) {
  const Vec clip = Set(g.clip);
  const Vec z = Sigmoid(Clip(Pre(g, 0), clip));
  const Vec r = Sigmoid(Clip(Pre(g, 1), clip));
  const Vec recurrent = Add(Load(g.tile + 2 * g.tile_stride), Load(g.rb));
  const Vec n = Tanh(Clip(MulAdd(r, recurrent, Load(g.x + 2 * g.x_stride)), clip));
  Store(g.h_next, MulAdd(z, Sub(Load(g.h), n), n));
}

static void GruPhase0(const GateArgs& g) {
  const Vec clip = Set(g.clip);
  Store(g.z, Sigmoid(Clip(Pre(g, 0), clip)));
  Store(g.scaled, Mul(Sigmoid(Clip(Pre(g, 1), clip)), Load(g.h)));
}

static void GruPhase1(const GateArgs& g) {
  const Vec n = Tanh(Clip(Add(Load(g.tile), Load(g.x + 2 * g.x_stride)), Set(g.clip)));
  Store(g.h_next, MulAdd(Load(g.z), Sub(Load(g.h), n), n));
}

static void Lstm(const GateArgs& g) {
  const Vec clip = Set(g.clip);
  const Vec old = Load(g.c);
  Vec i = Pre(g, 0), o = Pre(g, 1), f = Pre(g, 2);
  if (g.peephole != nullptr) {
    i = MulAdd(Load(g.peephole), old, i);
    f = MulAdd(Load(g.peephole + 2 * g.peephole_stride), old, f);
  }
  const Vec c = MulAdd(Sigmoid(Clip(f, clip)), old, Mul(Sigmoid(Clip(i, clip)), Tanh(Clip(Pre(g, 3), clip))));
  if (g.peephole != nullptr) o = MulAdd(Load(g.peephole + g.peephole_stride), c, o);
  Store(g.c, c);
  Store(g.h_next, Mul(Sigmoid(Clip(o, clip)), Tanh(Clip(c, clip))));
}
