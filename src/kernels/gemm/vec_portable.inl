// The vector type of machines without anything wider: four lanes as the compiler's own vector extension, which becomes SSE2 or
// NEON. Included inside an anonymous namespace.
struct Vec {
  typedef float T __attribute__((vector_size(16), aligned(4)));
  typedef int32_t I __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;
  static T Zero() { return T{0, 0, 0, 0}; }
  static T Set(float x) { return T{x, x, x, x}; }
  static T Load(const float* p) { return *reinterpret_cast<const T*>(p); }
  static void Store(float* p, T v) { *reinterpret_cast<T*>(p) = v; }
  static T LoadN(const float* p, int64_t n) {
    T v = Zero();
    for (int64_t i = 0; i < n; ++i) v[i] = p[i];
    return v;
  }
  static void StoreN(float* p, T v, int64_t n) {
    for (int64_t i = 0; i < n; ++i) p[i] = v[i];
  }
  // v[i] lane j becomes v[j] lane i.
  static void Transpose(T* v) {
    const T a = v[0], b = v[1], c = v[2], d = v[3];
    for (int i = 0; i < 4; ++i) v[i] = T{a[i], b[i], c[i], d[i]};
  }
  static T Fma(T a, T b, T c) { return a * b + c; }
  static T Add(T a, T b) { return a + b; }
  static T Sub(T a, T b) { return a - b; }
  static T Mul(T a, T b) { return a * b; }
  static T Div(T a, T b) { return a / b; }
  // NaN in b comes through.
  static T Max(T a, T b) { return a > b ? a : b; }
  static T Min(T a, T b) { return a < b ? a : b; }
  // |v| < 2^22.
  static T Round(T v) {
    const T magic = Set(12582912.0F);
    return (v + magic) - magic;
  }
  // 2^v for integral v in [-126, 127].
  static T Pow2(T v) { return reinterpret_cast<T>((__builtin_convertvector(v, I) + 127) << 23); }
};
