// The epilogue of the bf16 tiles and the copying of A over a vector type Vec. Included inside an anonymous namespace after
// activate.inl; the file defines LoadBf(p, n) and StoreBf(p, v, n) for n <= Vec::kLanes elements.

inline T LoadAny(const void* p, bool f32, int64_t at, int64_t n) {
  if (!f32) return LoadBf(static_cast<const uint16_t*>(p) + at, n);
  const float* from = static_cast<const float*>(p) + at;
  return n == Vec::kLanes ? Vec::Load(from) : Vec::LoadN(from, n);
}

inline void StoreAny(void* p, bool f32, int64_t at, T v, int64_t n) {
  if (!f32) {
    StoreBf(static_cast<uint16_t*>(p) + at, v, n);
  } else if (n == Vec::kLanes) {
    Vec::Store(static_cast<float*>(p) + at, v);
  } else {
    Vec::StoreN(static_cast<float*>(p) + at, v, n);
  }
}

inline void FinishVector(const Bf16Finish& f, int64_t r, int64_t i, int64_t n, T alpha, T lo, T hi) {
  T v = Vec::Load(f.acc + r * kBf16Panel + i);
  if (f.alpha != 1) v = Vec::Mul(v, alpha);
  if (f.bias != nullptr) v = Vec::Add(v, LoadAny(f.bias, true, i, n));
  if (f.residual != nullptr) v = Vec::Add(v, LoadAny(f.residual, f.residual_f32, r * f.residual_stride + i, n));
  v = Vec::Min(hi, Vec::Max(lo, v));
  if (f.rest != nullptr) {
    Vec::Store(f.acc + r * kBf16Panel + i, v);
  } else {
    StoreAny(f.c, f.c_f32, r * f.c_stride + i, v, n);
  }
}

void Finish(const Bf16Finish& f) {
  constexpr int kLanes = Vec::kLanes;
  const T alpha = Vec::Set(f.alpha);
  const T lo = Vec::Set(f.lo);
  const T hi = Vec::Set(f.hi);
  for (int64_t r = 0; r < f.rows; ++r) {
    int64_t i = 0;
    for (; i + kLanes <= f.n; i += kLanes) FinishVector(f, r, i, kLanes, alpha, lo, hi);
    if (i < f.n) FinishVector(f, r, i, f.n - i, alpha, lo, hi);
  }
  if (f.rest == nullptr) return;
  Activate(*f.rest, f.acc, f.rows, f.n, kBf16Panel);
  for (int64_t r = 0; r < f.rows; ++r) {
    for (int64_t i = 0; i < f.n; i += kLanes) {
      const int64_t n = f.n - i < kLanes ? f.n - i : kLanes;
      StoreAny(f.c, f.c_f32, r * f.c_stride + i, Vec::Load(f.acc + r * kBf16Panel + i), n);
    }
  }
}

// kAF32: A is kept as f32. Writes whole vectors up to `padded`.
template <bool kAF32>
void Convert(const void* from, bool from_f32, int64_t n, void* to, int64_t padded) {
  constexpr int kLanes = Vec::kLanes;
  auto* out = static_cast<uint16_t*>(to);
  auto* out_f32 = static_cast<float*>(to);
  int64_t i = 0;
  if (!kAF32 && !from_f32) {
    // Two elements a lane.
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      Vec::Store(reinterpret_cast<float*>(out + i), Vec::Load(reinterpret_cast<const float*>(static_cast<const uint16_t*>(from) + i)));
    }
  }
  for (; i < padded; i += kLanes) {
    T v = Vec::Zero();
    if (i + kLanes <= n) {
      v = LoadAny(from, from_f32, i, kLanes);
    } else if (i < n) {
      v = LoadAny(from, from_f32, i, n - i);
    }
    if (!kAF32) {
      StoreBf(out + i, v, kLanes);
    } else {
      Vec::Store(out_f32 + i, from_f32 ? RoundBf(v) : v);
    }
  }
}

template <bool kAF32>
void ConvertRuns(const void* from, bool from_f32, int64_t n, int64_t runs, int64_t from_step, void* to) {
  const int64_t in_bytes = from_step * (from_f32 ? 4 : 2);
  const int64_t out_bytes = n * (kAF32 ? 4 : 2);
  for (int64_t i = 0; i < runs; ++i) {
    Convert<kAF32>(static_cast<const char*>(from) + i * in_bytes, from_f32, n, static_cast<char*>(to) + i * out_bytes, n);
  }
}
