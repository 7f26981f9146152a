// The epilogue of the bf16 tiles and the copying of A over a vector type Vec. Included inside an anonymous namespace after
// activate.inl; the file defines LoadBf(p, n) and StoreBf(p, v, n) for n <= Vec::kLanes elements, StoreRow(p, v) for the
// vectors of 32 elements, and CopyWindows, which is Windows to bf16 or says false.

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

inline T HardSwish(T v, T scale, T shift) {
  const T gate = Vec::Max(Vec::Zero(), Vec::Min(Vec::Set(1), Vec::Fma(v, Vec::Set(1.0F / 6), Vec::Set(0.5F))));
  return Vec::Fma(Vec::Mul(v, gate), scale, shift);
}

enum class Element { kNone, kBf16, kF32 };

constexpr int kRowVectors = static_cast<int>(kBf16Panel) / Vec::kLanes;

// Vectors of a row, and elements of the last one. kWhole: of all 32 columns.
template <bool kWhole>
struct RowCut {
  explicit RowCut(int64_t columns)
      : vectors(kWhole ? kRowVectors : (columns + Vec::kLanes - 1) / Vec::kLanes),
        tail(kWhole ? Vec::kLanes : columns - (vectors - 1) * Vec::kLanes) {}
  bool Has(int i) const { return kWhole || i < vectors; }
  int64_t Elements(int i) const { return kWhole || i + 1 < vectors ? Vec::kLanes : tail; }
  int64_t vectors, tail;
};

// kOut kNone: back to acc.
template <Element kOut, bool kWhole>
inline void StoreRowOf(const Bf16Finish& f, const RowCut<kWhole>& cut, int64_t r, const T* v) {
  if (kOut == Element::kBf16 && kWhole) return StoreRow(static_cast<uint16_t*>(f.c) + r * f.c_stride, v);
#pragma GCC unroll 8
  for (int i = 0; i < kRowVectors; ++i) {
    if (!cut.Has(i)) break;
    if (kOut == Element::kNone) {
      Vec::Store(f.acc + r * kBf16Panel + i * Vec::kLanes, v[i]);
    } else {
      StoreAny(f.c, kOut == Element::kF32, r * f.c_stride + i * Vec::kLanes, v[i], cut.Elements(i));
    }
  }
}

template <Element kResidual, Element kOut, bool kHardSwish, bool kWhole>
void FinishRows(const Bf16Finish& f) {
  constexpr int kLanes = Vec::kLanes;
  const RowCut<kWhole> cut(f.n);
  const T alpha = Vec::Set(f.alpha);
  const T lo = Vec::Set(f.lo);
  const T hi = Vec::Set(f.hi);
  const T scale = Vec::Set(kHardSwish ? f.rest->post_scale : 1);
  const T shift = Vec::Set(kHardSwish ? f.rest->post_shift : 0);
  T bias[kRowVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRowVectors; ++i) {
    bias[i] = f.bias != nullptr && cut.Has(i) ? LoadAny(f.bias, true, i * kLanes, cut.Elements(i)) : Vec::Zero();
  }
  for (int64_t r = 0; r < f.rows; ++r) {
    T v[kRowVectors] = {};
#pragma GCC unroll 8
    for (int i = 0; i < kRowVectors; ++i) {
      if (!cut.Has(i)) break;
      v[i] = Vec::Fma(Vec::Load(f.acc + r * kBf16Panel + i * kLanes), alpha, bias[i]);
      if (kResidual != Element::kNone) {
        const int64_t at = r * f.residual_stride + i * kLanes;
        v[i] = Vec::Add(v[i], LoadAny(f.residual, kResidual == Element::kF32, at, cut.Elements(i)));
      }
      if (kHardSwish) {
        v[i] = HardSwish(v[i], scale, shift);
      } else {
        v[i] = Vec::Min(hi, Vec::Max(lo, v[i]));
      }
    }
    StoreRowOf<kOut>(f, cut, r, v);
  }
}

template <Element kOut, bool kHardSwish, bool kWhole>
void FinishTo(const Bf16Finish& f) {
  if (f.residual == nullptr) {
    FinishRows<Element::kNone, kOut, kHardSwish, kWhole>(f);
  } else if (f.residual_f32) {
    FinishRows<Element::kF32, kOut, kHardSwish, kWhole>(f);
  } else {
    FinishRows<Element::kBf16, kOut, kHardSwish, kWhole>(f);
  }
}

template <Element kOut, bool kWhole>
void StoreAll(const Bf16Finish& f) {
  const RowCut<kWhole> cut(f.n);
  for (int64_t r = 0; r < f.rows; ++r) {
    T v[kRowVectors] = {};
#pragma GCC unroll 8
    for (int i = 0; i < kRowVectors; ++i) v[i] = Vec::Load(f.acc + r * kBf16Panel + i * Vec::kLanes);
    StoreRowOf<kOut>(f, cut, r, v);
  }
}

template <bool kWhole>
void FinishPanel(const Bf16Finish& f) {
  if (f.rest == nullptr) {
    f.c_f32 ? FinishTo<Element::kF32, false, kWhole>(f) : FinishTo<Element::kBf16, false, kWhole>(f);
  } else if (f.rest->kind == Act::kHardSwish) {
    f.c_f32 ? FinishTo<Element::kF32, true, kWhole>(f) : FinishTo<Element::kBf16, true, kWhole>(f);
  } else {
    FinishTo<Element::kNone, false, kWhole>(f);
    Activate(*f.rest, f.acc, f.rows, f.n, kBf16Panel);
    f.c_f32 ? StoreAll<Element::kF32, kWhole>(f) : StoreAll<Element::kBf16, kWhole>(f);
  }
}

void Finish(const Bf16Finish& f) {
  f.n == kBf16Panel ? FinishPanel<true>(f) : FinishPanel<false>(f);
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
