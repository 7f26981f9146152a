// Sixteen floats as an array, for instruction sets without a file of their own. Inside the namespace of its user.
struct V {
  float f[16];
};
static inline V Set(float v) {
  V r;
  for (float& f : r.f) f = v;
  return r;
}
static inline V Zero() {
  return Set(0);
}
static inline V Load(const float* p) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = p[i];
  return r;
}
static inline void Store(float* p, V a) {
  for (int i = 0; i < 16; ++i) p[i] = a.f[i];
}
static inline V LoadH(const uint16_t* p) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = F16BitsToF32(p[i]);
  return r;
}
static inline V LoadB(const uint16_t* p) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = BF16BitsToF32(p[i]);
  return r;
}
static inline V LoadI8(const int8_t* p) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = p[i];
  return r;
}
/// Pairs of bf16: the first and the second of each.
static inline void LoadBPairs(const uint16_t* p, V* first, V* second) {
  for (int i = 0; i < 16; ++i) first->f[i] = BF16BitsToF32(p[2 * i]), second->f[i] = BF16BitsToF32(p[2 * i + 1]);
}
/// Pairs of floats: the first and the second of each, and back.
static inline void LoadPairs(const float* p, V* first, V* second) {
  for (int i = 0; i < 16; ++i) first->f[i] = p[2 * i], second->f[i] = p[2 * i + 1];
}
static inline void StorePairs(float* p, V first, V second) {
  for (int i = 0; i < 16; ++i) p[2 * i] = first.f[i], p[2 * i + 1] = second.f[i];
}
static inline void StoreH(uint16_t* p, V a) {
  for (int i = 0; i < 16; ++i) p[i] = F32ToF16Bits(a.f[i]);
}
static inline void StoreB(uint16_t* p, V a) {
  for (int i = 0; i < 16; ++i) p[i] = F32ToBF16Bits(a.f[i]);
}
static inline V Fma(V x, V y, V z) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = x.f[i] * y.f[i] + z.f[i];
  return r;
}
static inline V Add(V x, V y) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = x.f[i] + y.f[i];
  return r;
}
static inline V Sub(V x, V y) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = x.f[i] - y.f[i];
  return r;
}
static inline V Mul(V x, V y) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = x.f[i] * y.f[i];
  return r;
}
static inline V Div(V x, V y) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = x.f[i] / y.f[i];
  return r;
}
static inline V Max(V x, V y) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = x.f[i] > y.f[i] ? x.f[i] : y.f[i];
  return r;
}
static inline V Abs(V x) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = __builtin_fabsf(x.f[i]);
  return r;
}
static inline float SumOf(V x) {
  for (int n = 8; n > 0; n /= 2) {
    for (int i = 0; i < n; ++i) x.f[i] += x.f[i + n];
  }
  return x.f[0];
}
static inline float MaxOf(V x) {
  float m = x.f[0];
  for (int i = 1; i < 16; ++i) m = x.f[i] > m ? x.f[i] : m;
  return m;
}
static inline V RoundV(V x) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = __builtin_nearbyintf(x.f[i]);
  return r;
}
/// a * 2^n for whole n; 0 and infinity beyond the range of floats.
static inline V Scale2(V a, V n) {
  V r;
  for (int i = 0; i < 16; ++i) {
    const float c = n.f[i] < -252 ? -252 : n.f[i] > 254 ? 254 : n.f[i];
    r.f[i] = __builtin_ldexpf(a.f[i], static_cast<int>(c));
  }
  return r;
}
