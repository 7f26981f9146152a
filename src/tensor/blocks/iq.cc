#include "tensor/blocks/iq.h"

#include <bit>

#include "tensor/blocks/read.h"

namespace tenon::blocks {
namespace {

// Indices of a grid's values, two bits each in the grids of 8 and four bits each in those of 4.
#include "tensor/blocks/iq_grids.inc"

constexpr int kValues2[3] = {0x08, 0x19, 0x2b};
constexpr int kValues3Xxs[8] = {0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3e};
constexpr int kValues3S[8] = {0x01, 0x03, 0x05, 0x07, 0x09, 0x0b, 0x0d, 0x0f};
constexpr float kDelta = 0.125f;

// Seven signs are stored; the eighth makes their number even.
uint8_t Signs(uint32_t seven) {
  return static_cast<uint8_t>(seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7);
}

// n values of a grid's entry, signed and scaled.
template <int n>
void Emit(float scale, uint16_t entry, const int* values, uint8_t signs, float* out) {
  constexpr int kBits = n == 8 ? 2 : 4;
  for (int i = 0; i < n; ++i) {
    const float v = scale * static_cast<float>(values[entry >> (i * kBits) & ((1 << kBits) - 1)]);
    out[i] = v * ((signs >> i & 1) != 0 ? -1.0f : 1.0f);
  }
}

void EmitTernary(float scale, uint16_t entry, float delta, float* out) {
  for (int i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>((entry >> (2 * i) & 3) - 1) + delta);
}

}  // namespace

void Iq2Xxs(const uint8_t* b, float* out) {
  const float d = F16(b);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* q = b + 2 + g * 8;
    const uint32_t rest = U32(q + 4);
    const float scale = d * (0.5f + static_cast<float>(rest >> 28)) * 0.25f;
    for (int i = 0; i < 4; ++i) Emit<8>(scale, kIq2Xxs[q[i]], kValues2, Signs(rest >> (7 * i) & 127), out + g * 32 + i * 8);
  }
}

void Iq2Xs(const uint8_t* b, float* out) {
  const float d = F16(b);
  const uint8_t* scales = b + 66;
  for (int g = 0; g < 32; ++g) {
    const uint16_t q = U16(b + 2 + g * 2);
    const float scale = d * (0.5f + static_cast<float>(scales[g / 4] >> (g / 2 % 2 * 4) & 15)) * 0.25f;
    Emit<8>(scale, kIq2Xs[q & 511], kValues2, Signs(q >> 9), out + g * 8);
  }
}

void Iq2S(const uint8_t* b, float* out) {
  const float d = F16(b);
  const uint8_t *q = b + 2, *signs = b + 34, *high = b + 66, *scales = b + 74;
  for (int g = 0; g < 32; ++g) {
    const int index = q[g] | (high[g / 4] >> (g % 4 * 2) & 3) << 8;
    const float scale = d * (0.5f + static_cast<float>(scales[g / 4] >> (g / 2 % 2 * 4) & 15)) * 0.25f;
    Emit<8>(scale, kIq2S[index], kValues2, signs[g], out + g * 8);
  }
}

void Iq3Xxs(const uint8_t* b, float* out) {
  const float d = F16(b);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* q = b + 2 + g * 8;
    const uint32_t rest = U32(b + 66 + g * 4);
    const float scale = d * (0.5f + static_cast<float>(rest >> 28)) * 0.5f;
    for (int i = 0; i < 8; ++i) {
      const auto signs = static_cast<uint8_t>(Signs(rest >> (7 * (i / 2)) & 127) >> (i % 2 * 4));
      Emit<4>(scale, kIq3Xxs[q[i]], kValues3Xxs, signs, out + g * 32 + i * 4);
    }
  }
}

void Iq3S(const uint8_t* b, float* out) {
  const float d = F16(b);
  const uint8_t *q = b + 2, *high = b + 66, *signs = b + 74, *scales = b + 106;
  for (int g = 0; g < 64; ++g) {
    const int index = q[g] | (high[g / 8] >> (g % 8) & 1) << 8;
    const float scale = d * static_cast<float>(1 + 2 * (scales[g / 16] >> (g / 8 % 2 * 4) & 15));
    Emit<4>(scale, kIq3S[index], kValues3S, static_cast<uint8_t>(signs[g / 2] >> (g % 2 * 4)), out + g * 4);
  }
}

void Iq1S(const uint8_t* b, float* out) {
  const float d = F16(b);
  for (int g = 0; g < 8; ++g) {
    const int high = U16(b + 34 + g * 2);
    const float scale = d * static_cast<float>(2 * (high >> 12 & 7) + 1), delta = (high & 0x8000) != 0 ? -kDelta : kDelta;
    for (int i = 0; i < 4; ++i) {
      const int index = b[2 + g * 4 + i] | (high >> (3 * i) & 7) << 8;
      EmitTernary(scale, kIq1[index], delta, out + g * 32 + i * 8);
    }
  }
}

void Iq1M(const uint8_t* b, float* out) {
  const uint8_t *high = b + 32, *scales = b + 48;
  int bits = 0;   // the scale of the block is spread over the top bits of the four words of scales
  for (int i = 0; i < 4; ++i) bits |= (U16(scales + i * 2) >> 12) << (4 * i);
  const float d = F16BitsToF32(static_cast<uint16_t>(bits));
  for (int g = 0; g < 32; ++g) {
    const int h = high[g / 2] >> (g % 2 * 4) & 15;
    const float scale = d * static_cast<float>(2 * (U16(scales + g / 8 * 2) >> (g / 2 % 4 * 3) & 7) + 1);
    EmitTernary(scale, kIq1[b[g] | (h & 7) << 8], (h & 8) != 0 ? -kDelta : kDelta, out + g * 8);
  }
}

}  // namespace tenon::blocks
