// From int32 sums to results, over vectors VF and VI. Included inside an anonymous namespace after the primitives.

constexpr bool IsByte(Int8Kind kind) {
  return kind == Int8Kind::kU8 || kind == Int8Kind::kI8;
}

inline VF LoadResidual(const Int8Finish& f, int64_t at, Mask m) {
  const auto* bytes = static_cast<const uint8_t*>(f.residual) + at;
  switch (f.residual_kind) {
    case Int8Kind::kU8: return ToFloat(LoadU8(bytes, m));
    case Int8Kind::kI8: return ToFloat(LoadI8(bytes, m));
    case Int8Kind::kBF16: return LoadBF16(static_cast<const uint16_t*>(f.residual) + at, m);
    default: return LoadF(static_cast<const float*>(f.residual) + at, m);
  }
}

inline VI BF16Of(VF v) {
  const VI bits = Bits(v);
  const VI odd = AndI(ShiftRight<16>(bits), SetI(1));
  return QuietNan(v, ShiftRight<16>(AddI(bits, AddI(odd, SetI(0x7FFF)))));
}

template <Int8Kind kKind>
inline void StoreAs(const Int8Finish& f, int64_t at, VF v, Mask m) {
  if constexpr (kKind == Int8Kind::kF32) {
    StoreF(static_cast<float*>(f.y) + at, v, m);
  } else if constexpr (kKind == Int8Kind::kBF16) {
    StoreWord(static_cast<uint16_t*>(f.y) + at, BF16Of(v), m);
  } else {
    constexpr int kLow = kKind == Int8Kind::kI8 ? -128 : 0;
    const VF low = SetF(static_cast<float>(kLow - f.y_zero));
    const VF high = SetF(static_cast<float>(kLow + 255 - f.y_zero));
    v = RoundF(ZeroNan(MulF(v, SetF(f.y_inverse))));
    StoreByte(static_cast<uint8_t*>(f.y) + at, AddI(ToInt(MinF(high, MaxF(low, v))), SetI(f.y_zero)), m);
  }
}

// kPlain: neither grid nor residual, what nearly every layer is.
template <Int8Kind kKind, bool kPlain>
void FinishAs(const Int8Finish& f) {
  for (int64_t c = 0; c < f.n; c += kLanes) {
    const Mask m(f.n - c);
    const VF scale = LoadF(f.scale + c, m);
    const VF bias = f.bias != nullptr ? LoadF(f.bias + c, m) : SetF(0);
    const VI offset = LoadI(f.offset + c, m);
    const VI b_zero = f.b_zero != nullptr ? LoadI(f.b_zero + c, m) : SetI(0);
    for (int64_t r = 0; r < f.rows; ++r) {
      VI sum = AddI(LoadI(f.sums + r * f.sums_stride + c, m), offset);
      if (f.b_zero != nullptr) sum = SubI(sum, MulI(b_zero, SetI(f.row_sums[r])));
      if constexpr (kKind == Int8Kind::kI32) {
        StoreI(static_cast<int32_t*>(f.y) + r * f.y_stride + c, sum, m);
        continue;
      }
      VF v = FmaF(ToFloat(sum), scale, bias);
      if constexpr (!kPlain) {
        if (f.through_grid) {
          v = RoundF(ZeroNan(v));
          v = MulF(MinF(SetF(f.grid_high), MaxF(SetF(f.grid_low), v)), SetF(f.grid_scale));
        }
        if (f.residual != nullptr) {
          const VF addend = LoadResidual(f, r * f.residual_stride + c, m);
          v = AddF(FmaF(addend, SetF(f.residual_scale), v), SetF(f.residual_shift));
        }
      }
      v = MinF(SetF(f.hi), MaxF(SetF(f.lo), v));
      StoreAs<kKind>(f, r * f.y_stride + c, v, m);
    }
  }
}

template <Int8Kind kKind>
void FinishEither(const Int8Finish& f) {
  if (f.through_grid || f.residual != nullptr) FinishAs<kKind, false>(f);
  else FinishAs<kKind, true>(f);
}

void Finish(const Int8Finish& f) {
  switch (f.kind) {
    case Int8Kind::kF32: return FinishEither<Int8Kind::kF32>(f);
    case Int8Kind::kBF16: return FinishEither<Int8Kind::kBF16>(f);
    case Int8Kind::kU8: return FinishEither<Int8Kind::kU8>(f);
    case Int8Kind::kI8: return FinishEither<Int8Kind::kI8>(f);
    case Int8Kind::kI32: return FinishAs<Int8Kind::kI32, true>(f);
  }
}

template <Int8Kind kKind>
void ConvertAs(const Int8Finish& f) {
  for (int64_t r = 0; r < f.rows; ++r) {
    const auto* values = reinterpret_cast<const float*>(f.sums + r * f.sums_stride);
    for (int64_t c = 0; c < f.n; c += kLanes) StoreAs<kKind>(f, r * f.y_stride + c, LoadF(values + c, Mask(f.n - c)), Mask(f.n - c));
  }
}

void Convert(const Int8Finish& f) {
  switch (f.kind) {
    case Int8Kind::kBF16: return ConvertAs<Int8Kind::kBF16>(f);
    case Int8Kind::kU8: return ConvertAs<Int8Kind::kU8>(f);
    case Int8Kind::kI8: return ConvertAs<Int8Kind::kI8>(f);
    default: return ConvertAs<Int8Kind::kF32>(f);
  }
}
