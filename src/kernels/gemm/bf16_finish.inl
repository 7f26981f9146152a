// The epilogue of the bf16 tiles and the copying of A over a vector type Vec. Included inside an anonymous namespace after
// activate.inl; the file defines LoadBf(p, n) and StoreBf(p, v, n) for n <= Vec::kLanes elements, StoreRow(p, v) for
// the vectors of 32 elements, and CopyWindows, which is Windows to
// bf16 or says false.

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

inline void FinishVector(const Bf16Finish& f, int64_t r, int64_t i, int64_t n) {
  T v = Vec::Load(f.acc + r * kBf16Panel + i);
  const T bias = f.bias != nullptr ? LoadAny(f.bias, true, i, n) : Vec::Zero();
  v = Vec::Fma(v, Vec::Set(f.alpha), bias);
  if (f.residual != nullptr) v = Vec::Add(v, LoadAny(f.residual, f.residual_f32, r * f.residual_stride + i, n));
  v = Vec::Min(Vec::Set(f.hi), Vec::Max(Vec::Set(f.lo), v));
  if (f.rest != nullptr) {
    Vec::Store(f.acc + r * kBf16Panel + i, v);
  } else {
    StoreAny(f.c, f.c_f32, r * f.c_stride + i, v, n);
  }
}

// The last panel, when it is not whole.
void FinishNarrow(const Bf16Finish& f) {
  constexpr int kLanes = Vec::kLanes;
  for (int64_t r = 0; r < f.rows; ++r) {
    for (int64_t i = 0; i < f.n; i += kLanes) FinishVector(f, r, i, f.n - i < kLanes ? f.n - i : kLanes);
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

enum class Element { kNone, kBf16, kF32 };

// A row of a whole panel.
constexpr int kRowVectors = static_cast<int>(kBf16Panel) / Vec::kLanes;

template <Element kOut>
inline void StoreWholeRow(const Bf16Finish& f, int64_t r, const T* v) {
  if (kOut == Element::kBf16) {
    StoreRow(static_cast<uint16_t*>(f.c) + r * f.c_stride, v);
  } else {
    float* to = kOut == Element::kF32 ? static_cast<float*>(f.c) + r * f.c_stride : f.acc + r * kBf16Panel;
#pragma GCC unroll 8
    for (int i = 0; i < kRowVectors; ++i) Vec::Store(to + i * Vec::kLanes, v[i]);
  }
}

// kOut kNone: back to acc.
template <Element kResidual, Element kOut>
void FinishWhole(const Bf16Finish& f) {
  constexpr int kLanes = Vec::kLanes;
  const T alpha = Vec::Set(f.alpha);
  const T lo = Vec::Set(f.lo);
  const T hi = Vec::Set(f.hi);
  T bias[kRowVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRowVectors; ++i) bias[i] = f.bias != nullptr ? Vec::Load(f.bias + i * kLanes) : Vec::Zero();
  for (int64_t r = 0; r < f.rows; ++r) {
    T v[kRowVectors];
#pragma GCC unroll 8
    for (int i = 0; i < kRowVectors; ++i) {
      v[i] = Vec::Fma(Vec::Load(f.acc + r * kBf16Panel + i * kLanes), alpha, bias[i]);
      if (kResidual != Element::kNone) {
        v[i] = Vec::Add(v[i], LoadAny(f.residual, kResidual == Element::kF32, r * f.residual_stride + i * kLanes, kLanes));
      }
      v[i] = Vec::Min(hi, Vec::Max(lo, v[i]));
    }
    StoreWholeRow<kOut>(f, r, v);
  }
}

template <Element kOut>
void FinishTo(const Bf16Finish& f) {
  if (f.residual == nullptr) {
    FinishWhole<Element::kNone, kOut>(f);
  } else if (f.residual_f32) {
    FinishWhole<Element::kF32, kOut>(f);
  } else {
    FinishWhole<Element::kBf16, kOut>(f);
  }
}

template <Element kOut>
void StoreAll(const Bf16Finish& f) {
  for (int64_t r = 0; r < f.rows; ++r) {
    T v[kRowVectors];
#pragma GCC unroll 8
    for (int i = 0; i < kRowVectors; ++i) v[i] = Vec::Load(f.acc + r * kBf16Panel + i * Vec::kLanes);
    StoreWholeRow<kOut>(f, r, v);
  }
}

void Finish(const Bf16Finish& f) {
  if (f.n != kBf16Panel) {
    FinishNarrow(f);
  } else if (f.rest == nullptr) {
    f.c_f32 ? FinishTo<Element::kF32>(f) : FinishTo<Element::kBf16>(f);
  } else {
    FinishTo<Element::kNone>(f);
    Activate(*f.rest, f.acc, f.rows, f.n, kBf16Panel);
    f.c_f32 ? StoreAll<Element::kF32>(f) : StoreAll<Element::kBf16>(f);
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
void Windows(const Bf16Windows& v) {
  if (!kAF32 && CopyWindows(v)) return;
  const int64_t in_bytes = v.from_f32 ? 4 : 2;
  constexpr int64_t kOutBytes = kAF32 ? 4 : 2;
  for (int64_t w = 0; w < v.windows; ++w) {
    const char* from = static_cast<const char*>(v.from) + w * v.window_step * in_bytes;
    char* to = static_cast<char*>(v.to) + w * v.to_stride * kOutBytes;
    for (int64_t r = 0; r < v.runs; ++r) {
      Convert<kAF32>(from + r * v.run_step * in_bytes, v.from_f32, v.n, to + r * v.n * kOutBytes, v.n);
    }
    const int64_t k = v.n * v.runs;
    if (v.padded > k) __builtin_memset(to + k * kOutBytes, 0, static_cast<uint64_t>((v.padded - k) * kOutBytes));
  }
}

void Narrow(const float* from, int64_t n, uint16_t* to) {
  constexpr int kLanes = Vec::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreBf(to + i, Vec::Load(from + i), kLanes);
  if (i < n) StoreBf(to + i, Vec::LoadN(from + i, n - i), n - i);
}
