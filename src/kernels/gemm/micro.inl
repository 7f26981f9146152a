// The micro-kernels over a vector type Vec (vec_*.inl). Included inside an anonymous namespace by one file per instruction set,
// so that nothing here is shared between them. UNROLL makes the compiler keep `acc` in registers.
#define UNROLL _Pragma("GCC unroll 16")

using T = Vec::T;

// Column vector v of a row: whole, or its first `tail` lanes when it is the panel's last.
template <int NV>
T LoadColumns(const float* p, int v, int64_t tail) {
  return v == NV - 1 ? Vec::LoadN(p + v * Vec::kLanes, tail) : Vec::Load(p + v * Vec::kLanes);
}

template <int MR, int NV>
void Micro(const Tile& t) {
  constexpr int kLanes = Vec::kLanes;
  const int64_t tail = t.n - (NV - 1) * kLanes;
  T acc[MR][NV];
  if (t.accumulate) {
    UNROLL for (int r = 0; r < MR; ++r) {
      UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = LoadColumns<NV>(t.c + r * t.c_stride, v, tail);
    }
  } else {
    UNROLL for (int v = 0; v < NV; ++v) {
      const T bias = t.bias != nullptr ? LoadColumns<NV>(t.bias, v, tail) : Vec::Zero();
      UNROLL for (int r = 0; r < MR; ++r) acc[r][v] = bias;
    }
  }

  const float* b = t.b;
  const int64_t step = t.b_step;
  const int64_t depth = t.depth;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const float* p[MR];
    if (t.rows != nullptr) {
      UNROLL for (int r = 0; r < MR; ++r) p[r] = t.rows[tap * MR + r];
    } else {
      const float* base = t.a + (t.tap_offsets != nullptr ? t.tap_offsets[tap] : 0);
      UNROLL for (int r = 0; r < MR; ++r) p[r] = base + r * t.a_stride;
    }
    for (int64_t k = 0; k < depth; ++k) {
      T bv[NV];
      UNROLL for (int v = 0; v < NV; ++v) bv[v] = Vec::Load(b + v * kLanes);
      // Panels come from the L2 cache; eight steps ahead they are in L1 in time. Past the end it reads nothing.
      UNROLL for (int v = 0; v < NV; ++v) __builtin_prefetch(b + v * kLanes + 8 * NV * kLanes);
      UNROLL for (int r = 0; r < MR; ++r) {
        const T x = Vec::Set(p[r][k]);
        UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = Vec::Fma(x, bv[v], acc[r][v]);
      }
      b += step;
    }
  }

  const T lo = Vec::Set(t.lo);
  const T hi = Vec::Set(t.hi);
  UNROLL for (int r = 0; r < MR; ++r) {
    float* c = t.c + r * t.c_stride;
    if (t.residual != nullptr) {
      const float* residual = t.residual + r * t.residual_stride;
      UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = Vec::Add(acc[r][v], LoadColumns<NV>(residual, v, tail));
    }
    UNROLL for (int v = 0; v < NV; ++v) {
      const T y = Vec::Min(hi, Vec::Max(lo, acc[r][v]));
      if (v == NV - 1) {
        Vec::StoreN(c + v * kLanes, y, tail);
      } else {
        Vec::Store(c + v * kLanes, y);
      }
    }
  }
}
