// Loops shared by the per-ISA files: include in an anonymous namespace after defining Vec (floats), IVec (int32), kLanes and
//   LoadF StoreF SetF AddF DivF MulF MinF MaxF RoundF ZeroNan, SetI AddI SubI ToFloat ToInt,
//   LoadBytes(p, is_signed) -> IVec, StoreBytes(p, v, is_signed).
// Tails are done by scalar code on one lane's formula, so that n may be anything.

static inline float RoundScalar(float v) {
  return _mm_cvtss_f32(_mm_round_ss(_mm_setzero_ps(), _mm_set_ss(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline void PutByte(void* y, int64_t i, float v, int32_t zero, bool is_signed) {
  const float low = static_cast<float>((is_signed ? -128 : 0) - zero), high = static_cast<float>((is_signed ? 127 : 255) - zero);
  v = v != v ? 0 : v;
  v = RoundScalar(v);
  v = v < low ? low : v > high ? high : v;
  static_cast<uint8_t*>(y)[i] = static_cast<uint8_t>(static_cast<int32_t>(v) + zero);
}

static inline int32_t GetByte(const void* x, int64_t i, bool is_signed) {
  return is_signed ? static_cast<const int8_t*>(x)[i] : static_cast<const uint8_t*>(x)[i];
}

static inline void PutBytes(void* y, int64_t i, Vec v, IVec zero, bool is_signed) {
  const Vec low = ToFloat(SubI(SetI(is_signed ? -128 : 0), zero)), high = ToFloat(SubI(SetI(is_signed ? 127 : 255), zero));
  v = MinF(high, MaxF(low, RoundF(ZeroNan(v))));
  StoreBytes(static_cast<uint8_t*>(y) + i, AddI(ToInt(v), zero), is_signed);
}

static void Quantize(const float* x, int64_t n, float scale, int32_t zero, bool is_signed, void* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) PutBytes(y, i, DivF(LoadF(x + i), SetF(scale)), SetI(zero), is_signed);
  for (; i < n; ++i) PutByte(y, i, x[i] / scale, zero, is_signed);
}

static void QuantizeEach(const float* x, int64_t n, const float* scale, const void* zero, bool is_signed, void* y) {
  const auto* z = static_cast<const uint8_t*>(zero);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    PutBytes(y, i, DivF(LoadF(x + i), LoadF(scale + i)), z != nullptr ? LoadBytes(z + i, is_signed) : SetI(0), is_signed);
  }
  for (; i < n; ++i) PutByte(y, i, x[i] / scale[i], z != nullptr ? GetByte(z, i, is_signed) : 0, is_signed);
}

static void Dequantize(const void* x, int64_t n, float scale, int32_t zero, bool is_signed, float* y) {
  const auto* b = static_cast<const uint8_t*>(x);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreF(y + i, MulF(ToFloat(SubI(LoadBytes(b + i, is_signed), SetI(zero))), SetF(scale)));
  for (; i < n; ++i) y[i] = static_cast<float>(GetByte(x, i, is_signed) - zero) * scale;
}

static void DequantizeEach(const void* x, int64_t n, const float* scale, const void* zero, bool is_signed, float* y) {
  const auto* b = static_cast<const uint8_t*>(x);
  const auto* z = static_cast<const uint8_t*>(zero);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const IVec shift = z != nullptr ? LoadBytes(z + i, is_signed) : SetI(0);
    StoreF(y + i, MulF(ToFloat(SubI(LoadBytes(b + i, is_signed), shift)), LoadF(scale + i)));
  }
  for (; i < n; ++i)
    y[i] = static_cast<float>(GetByte(x, i, is_signed) - (z != nullptr ? GetByte(z, i, is_signed) : 0)) * scale[i];
}

static void MinMax(const float* x, int64_t n, float* low, float* high) {
  Vec l = SetF(0), h = SetF(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {   // a NaN among x is passed over: the accumulator is the second operand
    l = MinF(LoadF(x + i), l);
    h = MaxF(LoadF(x + i), h);
  }
  float ls[kLanes], hs[kLanes];
  StoreF(ls, l);
  StoreF(hs, h);
  *low = *high = 0;
  for (int k = 0; k < kLanes; ++k) {
    *low = ls[k] < *low ? ls[k] : *low;
    *high = hs[k] > *high ? hs[k] : *high;
  }
  for (; i < n; ++i) {
    *low = x[i] < *low ? x[i] : *low;
    *high = x[i] > *high ? x[i] : *high;
  }
}

static void Binary(const ByteBinary& f, const void* a, const void* b, int64_t n, void* y) {
  const auto *pa = static_cast<const uint8_t*>(a), *pb = static_cast<const uint8_t*>(b);
  const Vec one = ToFloat(SetI(GetByte(b, 0, f.b_signed) - f.b_zero));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec va = ToFloat(SubI(LoadBytes(pa + i, f.a_signed), SetI(f.a_zero)));
    const Vec vb = f.b_is_one ? one : ToFloat(SubI(LoadBytes(pb + i, f.b_signed), SetI(f.b_zero)));
    const Vec v = f.multiplies ? MulF(MulF(va, vb), SetF(f.a_scale)) : AddF(MulF(va, SetF(f.a_scale)), MulF(vb, SetF(f.b_scale)));
    PutBytes(y, i, v, SetI(f.y_zero), f.y_signed);
  }
  for (; i < n; ++i) {
    const auto va = static_cast<float>(GetByte(a, i, f.a_signed) - f.a_zero);
    const auto vb = static_cast<float>(GetByte(b, f.b_is_one ? 0 : i, f.b_signed) - f.b_zero);
    PutByte(y, i, f.multiplies ? va * vb * f.a_scale : va * f.a_scale + vb * f.b_scale, f.y_zero, f.y_signed);
  }
}
