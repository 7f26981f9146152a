// Loops shared by the per-ISA files: include in an anonymous namespace after defining Vec (floats), IVec (int32), kLanes and
//   LoadF StoreF SetF DivF MulF MinF MaxF RoundF ZeroNan, SetI AddI SubI ToFloat ToInt,
//   LoadBytes(p, is_signed) -> IVec, StoreBytes(p, v, is_signed), LoadI StoreI MulI,
//   XorSum(p, flip, to, acc): one register of bytes, whose sums of eight are added to acc in 64-bit lanes; Total(acc).
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

static void Requantize(const int32_t* sum, int64_t n, float a_scale, const float* b_scale, float y_scale, int32_t zero,
                       bool is_signed, void* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec scale = DivF(MulF(SetF(a_scale), LoadF(b_scale + i)), SetF(y_scale));
    PutBytes(y, i, MulF(ToFloat(LoadI(sum + i)), scale), SetI(zero), is_signed);
  }
  for (; i < n; ++i) PutByte(y, i, static_cast<float>(sum[i]) * (a_scale * b_scale[i] / y_scale), zero, is_signed);
}

static uint32_t FlipAndSum(const uint8_t* from, int64_t n, uint8_t flip, uint8_t* to) {
  constexpr int kBytes = kLanes * 4;
  IVec acc = SetI(0);
  int64_t i = 0;
  for (; i + kBytes <= n; i += kBytes) acc = XorSum(from + i, flip, to + i, acc);
  uint32_t sum = Total(acc);
  for (; i < n; ++i) {
    to[i] = static_cast<uint8_t>(from[i] ^ flip);
    sum += to[i];
  }
  return sum;
}

static void Correct(int32_t* sum, int64_t n, const int32_t* b_zero, const uint32_t* b_sums, uint32_t centred, uint32_t a_zero,
                    const int32_t* bias) {
  const IVec c = SetI(static_cast<int32_t>(centred)), z = SetI(static_cast<int32_t>(a_zero));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const IVec fix = AddI(MulI(LoadI(b_zero + i), c), MulI(LoadI(reinterpret_cast<const int32_t*>(b_sums) + i), z));
    StoreI(sum + i, AddI(SubI(LoadI(sum + i), fix), bias != nullptr ? LoadI(bias + i) : SetI(0)));
  }
  for (; i < n; ++i) {
    const uint32_t fix = static_cast<uint32_t>(b_zero[i]) * centred + a_zero * b_sums[i];
    sum[i] = static_cast<int32_t>(static_cast<uint32_t>(sum[i]) - fix + static_cast<uint32_t>(bias != nullptr ? bias[i] : 0));
  }
}
