// Winograd's tile transforms over a vector type Vec (gemm/vec_*.inl). Included inside an anonymous namespace.
#define UNROLL _Pragma("GCC unroll 36")

using T = Vec::T;

constexpr float kSqrt2 = 1.41421356F;

// One application of B^T to six values, for the points 0, +-1/sqrt(2), +-sqrt(2), infinity: a third of the error of 0, +-1, +-2.
inline void InputStep(const T* d, T* t) {
  const T minus = Vec::Set(-2.5F);
  const T root = Vec::Set(kSqrt2);
  const T half_root = Vec::Set(kSqrt2 / 2);
  const T a = Vec::Fma(Vec::Set(-2), d[2], d[4]);
  const T b = Vec::Sub(Vec::Mul(half_root, d[3]), Vec::Mul(root, d[1]));
  const T c = Vec::Fma(Vec::Set(-0.5F), d[2], d[4]);
  const T e = Vec::Sub(Vec::Mul(root, d[3]), Vec::Mul(half_root, d[1]));
  t[0] = Vec::Fma(minus, d[2], Vec::Add(d[0], d[4]));
  t[1] = Vec::Add(a, b);
  t[2] = Vec::Sub(a, b);
  t[3] = Vec::Add(c, e);
  t[4] = Vec::Sub(c, e);
  t[5] = Vec::Fma(minus, d[3], Vec::Add(d[1], d[5]));
}

template <bool kWhole, bool kEdge>
inline void InputVector(const WinogradInput& w, int64_t c, int64_t n) {
  T t[6][6];
  UNROLL for (int j = 0; j < 6; ++j) {
    T d[6];
    T column[6];
    UNROLL for (int i = 0; i < 6; ++i) {
      const bool outside = kEdge && (i < w.i0 || i >= w.i1 || j < w.j0 || j >= w.j1);
      const float* p = w.x + i * w.row_step + j * w.pixel_step + c;
      d[i] = outside ? Vec::Zero() : (kWhole ? Vec::Load(p) : Vec::LoadN(p, n));
    }
    InputStep(d, column);
    UNROLL for (int i = 0; i < 6; ++i) t[i][j] = column[i];
  }
  float* v = w.v + c;
  UNROLL for (int i = 0; i < 6; ++i) {
    T row[6];
    InputStep(t[i], row);
    UNROLL for (int j = 0; j < 6; ++j) {
      float* to = v + (i * 6 + j) * w.point_step;
      if (kWhole) {
        Vec::Store(to, row[j]);
      } else {
        Vec::StoreN(to, row[j], n);
      }
    }
  }
}

void Input(const WinogradInput& w) {
  constexpr int kLanes = Vec::kLanes;
  int64_t c = 0;
  if (w.i0 == 0 && w.i1 == 6 && w.j0 == 0 && w.j1 == 6) {
    for (; c + kLanes <= w.channels; c += kLanes) InputVector<true, false>(w, c, kLanes);
  } else {
    for (; c + kLanes <= w.channels; c += kLanes) InputVector<true, true>(w, c, kLanes);
  }
  if (c < w.channels) InputVector<false, true>(w, c, w.channels - c);
}

// One application of A^T to six values.
inline void OutputStep(const T* m, T* s) {
  const T a = Vec::Add(m[1], m[2]);
  const T b = Vec::Sub(m[1], m[2]);
  const T c = Vec::Add(m[3], m[4]);
  const T d = Vec::Sub(m[3], m[4]);
  s[0] = Vec::Add(Vec::Add(m[0], a), c);
  s[1] = Vec::Fma(Vec::Set(kSqrt2 / 2), b, Vec::Mul(Vec::Set(kSqrt2), d));
  s[2] = Vec::Fma(Vec::Set(0.5F), a, Vec::Add(c, c));
  s[3] = Vec::Fma(Vec::Set(kSqrt2 / 4), b, Vec::Fma(Vec::Set(2 * kSqrt2), d, m[5]));
}

inline T LoadC(const float* p, int64_t n, bool whole) { return whole ? Vec::Load(p) : Vec::LoadN(p, n); }

void Output(const WinogradOutput& w) {
  constexpr int kLanes = Vec::kLanes;
  for (int64_t c = 0; c < w.channels; c += kLanes) {
    const int64_t n = w.channels - c;
    const bool whole = n >= kLanes;
    T s[4][6];
    UNROLL for (int j = 0; j < 6; ++j) {
      T m[6];
      T column[4];
      UNROLL for (int i = 0; i < 6; ++i) m[i] = LoadC(w.m + (i * 6 + j) * w.point_step + c, n, whole);
      OutputStep(m, column);
      UNROLL for (int i = 0; i < 4; ++i) s[i][j] = column[i];
    }
    const T bias = w.bias != nullptr ? LoadC(w.bias + c, n, whole) : Vec::Zero();
    UNROLL for (int i = 0; i < 4; ++i) {
      if (i >= w.rows) break;
      T row[4];
      OutputStep(s[i], row);
      UNROLL for (int j = 0; j < 4; ++j) {
        if (j >= w.columns) break;
        const int64_t at = i * w.row_step + j * w.pixel_step + c;
        T y = Vec::Add(row[j], bias);
        if (w.residual != nullptr) y = Vec::Add(y, LoadC(w.residual + at, n, whole));
        y = Vec::Min(Vec::Set(w.hi), Vec::Max(Vec::Set(w.lo), y));
        if (whole) {
          Vec::Store(w.y + at, y);
        } else {
          Vec::StoreN(w.y + at, y, n);
        }
      }
    }
  }
}
