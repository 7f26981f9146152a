// Activations over a vector type Vec, in place, on a tile that the micro-kernel has just written. Included inside an anonymous
// namespace after micro.inl. Largest errors seen: exp 2 ulp, tanh 4 ulp, erf 4 ulp.

// exp for finite x; below -87.3 the smallest normal number, above 88.02 about 1.7e38. NaN stays NaN.
inline T Exp(T x) {
  x = Vec::Max(Vec::Set(-87.3365F), Vec::Min(Vec::Set(88.02F), x));
  const T n = Vec::Round(Vec::Mul(x, Vec::Set(1.44269504F)));
  T r = Vec::Fma(n, Vec::Set(-0.693359375F), x);
  r = Vec::Fma(n, Vec::Set(2.12194440e-4F), r);
  T p = Vec::Fma(r, Vec::Set(1.9875691500e-4F), Vec::Set(1.3981999507e-3F));
  p = Vec::Fma(p, r, Vec::Set(8.3334519073e-3F));
  p = Vec::Fma(p, r, Vec::Set(4.1665795894e-2F));
  p = Vec::Fma(p, r, Vec::Set(1.6666665459e-1F));
  p = Vec::Fma(p, r, Vec::Set(0.5F));
  p = Vec::Fma(Vec::Mul(r, r), p, Vec::Add(r, Vec::Set(1)));
  return Vec::Mul(p, Vec::Pow2(n));
}

inline T Sigmoid(T x) { return Vec::Div(Vec::Set(1), Vec::Add(Vec::Set(1), Exp(Vec::Sub(Vec::Zero(), x)))); }

// Rational minimax approximation, odd over even polynomial (the one that Eigen and XLA use).
inline T Tanh(T x) {
  x = Vec::Max(Vec::Set(-7.99881172F), Vec::Min(Vec::Set(7.99881172F), x));
  const T s = Vec::Mul(x, x);
  T p = Vec::Fma(s, Vec::Set(-2.76076847742355e-16F), Vec::Set(2.00018790482477e-13F));
  p = Vec::Fma(s, p, Vec::Set(-8.60467152213735e-11F));
  p = Vec::Fma(s, p, Vec::Set(5.12229709037114e-08F));
  p = Vec::Fma(s, p, Vec::Set(1.48572235717979e-05F));
  p = Vec::Fma(s, p, Vec::Set(6.37261928875436e-04F));
  p = Vec::Fma(s, p, Vec::Set(4.89352455891786e-03F));
  T q = Vec::Fma(s, Vec::Set(1.19825839466702e-06F), Vec::Set(1.18534705686654e-04F));
  q = Vec::Fma(s, q, Vec::Set(2.26843463243900e-03F));
  q = Vec::Fma(s, q, Vec::Set(4.89352518554385e-03F));
  return Vec::Div(Vec::Mul(x, p), q);
}

inline T Erf(T x) {
  x = Vec::Max(Vec::Set(-4), Vec::Min(Vec::Set(4), x));
  const T s = Vec::Mul(x, x);
  T p = Vec::Fma(s, Vec::Set(-2.72614225801306e-10F), Vec::Set(2.77068142495902e-08F));
  p = Vec::Fma(s, p, Vec::Set(-2.10102402082508e-06F));
  p = Vec::Fma(s, p, Vec::Set(-5.69250639462346e-05F));
  p = Vec::Fma(s, p, Vec::Set(-7.34990630326855e-04F));
  p = Vec::Fma(s, p, Vec::Set(-2.95459980854025e-03F));
  p = Vec::Fma(s, p, Vec::Set(-1.60960333262415e-02F));
  T q = Vec::Fma(s, Vec::Set(-1.45660718464996e-05F), Vec::Set(-2.13374055278905e-04F));
  q = Vec::Fma(s, q, Vec::Set(-1.68282697438203e-03F));
  q = Vec::Fma(s, q, Vec::Set(-7.37332916720468e-03F));
  q = Vec::Fma(s, q, Vec::Set(-1.42647390514189e-02F));
  return Vec::Div(Vec::Mul(x, p), q);
}

template <typename F>
void Map(float* c, int64_t rows, int64_t n, int64_t stride, F f) {
  constexpr int kLanes = Vec::kLanes;
  for (int64_t r = 0; r < rows; ++r, c += stride) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) Vec::Store(c + i, f(Vec::Load(c + i)));
    if (i < n) Vec::StoreN(c + i, f(Vec::LoadN(c + i, n - i)), n - i);
  }
}

template <typename F>
void MapWithPost(const Activation& a, float* c, int64_t rows, int64_t n, int64_t stride, F f) {
  if (a.post_scale == 1 && a.post_shift == 0) {
    Map(c, rows, n, stride, f);
    return;
  }
  const T scale = Vec::Set(a.post_scale);
  const T shift = Vec::Set(a.post_shift);
  Map(c, rows, n, stride, [=](T x) { return Vec::Fma(f(x), scale, shift); });
}

void Activate(const Activation& a, float* c, int64_t rows, int64_t n, int64_t stride) {
  const T one = Vec::Set(1);
  const T half = Vec::Set(0.5F);
  const T zero = Vec::Zero();
  const T pa = Vec::Set(a.a);
  const T pb = Vec::Set(a.b);
  switch (a.kind) {
    case Act::kNone: MapWithPost(a, c, rows, n, stride, [=](T x) { return x; }); break;
    case Act::kRelu: MapWithPost(a, c, rows, n, stride, [=](T x) { return Vec::Max(zero, x); }); break;
    case Act::kClip: MapWithPost(a, c, rows, n, stride, [=](T x) { return Vec::Min(pb, Vec::Max(pa, x)); }); break;
    case Act::kHardSwish: {
      const T sixth = Vec::Set(1.0F / 6);
      MapWithPost(a, c, rows, n, stride, [=](T x) {
        return Vec::Mul(x, Vec::Max(zero, Vec::Min(one, Vec::Fma(x, sixth, half))));
      });
      break;
    }
    case Act::kHardSigmoid:
      MapWithPost(a, c, rows, n, stride, [=](T x) { return Vec::Max(zero, Vec::Min(one, Vec::Fma(x, pa, pb))); });
      break;
    case Act::kSigmoid: MapWithPost(a, c, rows, n, stride, [](T x) { return Sigmoid(x); }); break;
    case Act::kSilu: MapWithPost(a, c, rows, n, stride, [](T x) { return Vec::Mul(x, Sigmoid(x)); }); break;
    case Act::kGelu:
      MapWithPost(a, c, rows, n, stride, [=](T x) {
        const T e = Erf(Vec::Mul(x, Vec::Set(0.707106781F)));
        return Vec::Mul(Vec::Mul(x, half), Vec::Add(one, e));
      });
      break;
    case Act::kGeluTanh:
      MapWithPost(a, c, rows, n, stride, [=](T x) {
        const T cube = Vec::Fma(Vec::Mul(Vec::Mul(x, x), x), Vec::Set(0.044715F), x);
        return Vec::Mul(Vec::Mul(x, half), Vec::Add(one, Tanh(Vec::Mul(cube, Vec::Set(0.797884561F)))));
      });
      break;
    case Act::kLeakyRelu:
      MapWithPost(a, c, rows, n, stride, [=](T x) { return Vec::Fma(pa, Vec::Min(zero, x), Vec::Max(zero, x)); });
      break;
    case Act::kTanh: MapWithPost(a, c, rows, n, stride, [](T x) { return Tanh(x); }); break;
  }
}
