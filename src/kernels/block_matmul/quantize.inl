// Rows of X as integers of 16 bits.

static inline void QuantizeBlock(const float* x, int64_t b, const RowX& to) {
  float max = 0;
  for (int i = 0; i < 32; ++i) max = __builtin_fabsf(x[i]) > max ? __builtin_fabsf(x[i]) : max;
  const float inverse = max > 0 ? 32512.0f / max : 0.0f;
  const_cast<float*>(to.scale)[b] = max / 32512.0f;
  for (int half = 0; half < 2; ++half) {
    int32_t sum = 0;
    for (int i = half * 16; i < half * 16 + 16; ++i) {
      const auto v = static_cast<int32_t>(__builtin_nearbyintf(x[i] * inverse));
      const int32_t high = (v + 128) >> 8;
      sum += v;
      const_cast<int8_t*>(to.high)[b * 32 + i] = static_cast<int8_t>(high);
      const_cast<int8_t*>(to.low)[b * 32 + i] = static_cast<int8_t>(v - high * 256);
      const_cast<int16_t*>(to.q)[b * 32 + i / 4 * 4 + (i % 4 == 1 ? 2 : i % 4 == 2 ? 1 : i % 4)] = static_cast<int16_t>(v);
    }
    const_cast<int32_t*>(to.sums)[b * 2 + half] = sum;
  }
}

void QuantizePlain(const float* x, int64_t k, int64_t blocks, const RowX& to) {
  float rest[32];
  for (int64_t b = 0; b < blocks; ++b) {
    const float* from = x + b * 32;
    if (b * 32 + 32 > k) {
      for (int64_t i = 0; i < 32; ++i) rest[i] = b * 32 + i < k ? x[b * 32 + i] : 0.0f;
      from = rest;
    }
    for (int i = 0; i < 32; ++i) const_cast<float*>(to.x)[b * 32 + i] = from[i];
    QuantizeBlock(from, b, to);
  }
}
