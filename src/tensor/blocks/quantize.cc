#include "tensor/blocks/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"

namespace tenon {
namespace {

constexpr int kElements = 32;
constexpr int kRefits = 4;

float PutF16(float v, uint8_t* to) {
  const uint16_t bits = F32ToF16Bits(v);
  std::memcpy(to, &bits, sizeof(bits));
  return F16BitsToF32(bits);
}

// Codes of x in steps of `scale` from `min`, both as f16 says them; returns the squared error.
double EncodeQ4_1(const float* x, float scale, float min, uint8_t* block) {
  scale = PutF16(scale, block);
  min = PutF16(min, block + 2);
  const float inverse = scale != 0 ? 1 / scale : 0;
  double error = 0;
  uint8_t codes[kElements];
  for (int i = 0; i < kElements; ++i) {
    codes[i] = static_cast<uint8_t>(std::clamp(std::nearbyint((x[i] - min) * inverse), 0.0F, 15.0F));
    const double e = static_cast<double>(x[i]) - (static_cast<double>(codes[i]) * scale + min);
    error += e * e;
  }
  for (int i = 0; i < 16; ++i) block[4 + i] = static_cast<uint8_t>(codes[i] | codes[i + 16] << 4);
  return error;
}

// The line through (code, x) with the least squared error; false when all codes are one.
bool FitLine(const float* x, const uint8_t* block, float* scale, float* min) {
  double sum_q = 0, sum_qq = 0, sum_x = 0, sum_qx = 0;
  for (int i = 0; i < kElements; ++i) {
    const double q = i < 16 ? block[4 + i] & 15 : block[4 + i - 16] >> 4;
    sum_q += q;
    sum_qq += q * q;
    sum_x += x[i];
    sum_qx += q * x[i];
  }
  const double spread = kElements * sum_qq - sum_q * sum_q;
  if (spread == 0) return false;
  *scale = static_cast<float>((kElements * sum_qx - sum_q * sum_x) / spread);
  *min = static_cast<float>((sum_x - *scale * sum_q) / kElements);
  return true;
}

}  // namespace

void QuantizeQ8_0(const float* x, uint8_t* block) {
  float largest = 0;
  for (int i = 0; i < kElements; ++i) largest = std::max(largest, std::abs(x[i]));
  const float scale = PutF16(largest / 127, block);
  const float inverse = scale != 0 ? 1 / scale : 0;
  for (int i = 0; i < kElements; ++i)
    block[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::nearbyint(x[i] * inverse), -127.0F, 127.0F)));
}

void QuantizeQ4_1(const float* x, uint8_t* block) {
  const auto [low, high] = std::minmax_element(x, x + kElements);
  float scale = (*high - *low) / 15, min = *low;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRefits; ++i) {
    uint8_t trial[20];
    const double error = EncodeQ4_1(x, scale, min, trial);
    if (!(error < best)) return;
    best = error;
    std::memcpy(block, trial, sizeof(trial));
    if (!FitLine(x, trial, &scale, &min)) return;
  }
}

}  // namespace tenon
