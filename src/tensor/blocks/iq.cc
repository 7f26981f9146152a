#include "tensor/blocks/iq.h"

#include <bit>

#include "tensor/blocks/read.h"

namespace tenon::blocks {
namespace {

// Indices of a grid's values, two bits each in the grids of 8 and four bits each in those of 4.
#include "tensor/blocks/iq_grids.inc"

// Seven signs are stored; the eighth makes their number even.
uint8_t Signs(uint32_t seven) {
  return static_cast<uint8_t>(seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7);
}

// n values of a grid's entry with their signs.
template <int n>
void Emit(uint16_t entry, uint8_t signs, uint8_t* codes) {
  constexpr int kBits = n == 8 ? 2 : 4;
  for (int i = 0; i < n; ++i) {
    codes[i] = static_cast<uint8_t>((entry >> (i * kBits) & ((1 << kBits) - 1)) | (signs >> i & 1) << 3);
  }
}

void SetBoth(float scale, TableCodes* to) {
  to->scale[0] = to->scale[1] = scale;
}
// The scales of iq2_xs and iq2_s, four bits for each half.
void SetHalves(float d, uint8_t packed, TableCodes* to) {
  for (int h = 0; h < 2; ++h) to->scale[h] = d * (0.5f + static_cast<float>(packed >> (4 * h) & 15)) * 0.25f;
}

// What is added to each of eight values of iq1 is an eighth of the scale, or minus that: all are taken times eight.
void EmitTernary(uint16_t entry, bool minus, uint8_t* codes) {
  Emit<8>(entry, minus ? 0xff : 0, codes);
}
constexpr float kOfTernary = 0.125f;

}  // namespace

void Iq2Xxs(const uint8_t* b, int i, TableCodes* to) {
  const uint8_t* q = b + 2 + i * 8;
  const uint32_t rest = U32(q + 4);
  SetBoth(F16(b) * (0.5f + static_cast<float>(rest >> 28)) * 0.25f, to);
  for (int g = 0; g < 4; ++g) Emit<8>(kIq2Xxs[q[g]], Signs(rest >> (7 * g) & 127), to->codes + g * 8);
}

void Iq2Xs(const uint8_t* b, int i, TableCodes* to) {
  SetHalves(F16(b), b[66 + i], to);
  for (int g = 0; g < 4; ++g) {
    const uint16_t q = U16(b + 2 + (4 * i + g) * 2);
    Emit<8>(kIq2Xs[q & 511], Signs(q >> 9), to->codes + g * 8);
  }
}

void Iq2S(const uint8_t* b, int i, TableCodes* to) {
  const uint8_t *q = b + 2 + 4 * i, *signs = b + 34 + 4 * i;
  SetHalves(F16(b), b[74 + i], to);
  for (int g = 0; g < 4; ++g) {
    const int index = q[g] | (b[66 + i] >> (g * 2) & 3) << 8;
    Emit<8>(kIq2S[index], signs[g], to->codes + g * 8);
  }
}

void Iq3Xxs(const uint8_t* b, int i, TableCodes* to) {
  const uint8_t* q = b + 2 + i * 8;
  const uint32_t rest = U32(b + 66 + i * 4);
  SetBoth(F16(b) * (0.5f + static_cast<float>(rest >> 28)) * 0.5f, to);
  for (int g = 0; g < 8; ++g) {
    const auto signs = static_cast<uint8_t>(Signs(rest >> (7 * (g / 2)) & 127) >> (g % 2 * 4));
    Emit<4>(kIq3Xxs[q[g]], signs, to->codes + g * 4);
  }
}

void Iq3S(const uint8_t* b, int i, TableCodes* to) {
  const uint8_t *q = b + 2 + 8 * i, *signs = b + 74 + 4 * i;
  SetBoth(F16(b) * static_cast<float>(1 + 2 * (b[106 + i / 2] >> (i % 2 * 4) & 15)), to);
  for (int g = 0; g < 8; ++g) {
    const int index = q[g] | (b[66 + i] >> g & 1) << 8;
    Emit<4>(kIq3S[index], static_cast<uint8_t>(signs[g / 2] >> (g % 2 * 4)), to->codes + g * 4);
  }
}

void Iq1S(const uint8_t* b, int i, TableCodes* to) {
  const int high = U16(b + 34 + i * 2);
  SetBoth(F16(b) * static_cast<float>(2 * (high >> 12 & 7) + 1) * kOfTernary, to);
  for (int g = 0; g < 4; ++g) {
    const int index = b[2 + i * 4 + g] | (high >> (3 * g) & 7) << 8;
    EmitTernary(kIq1[index], (high & 0x8000) != 0, to->codes + g * 8);
  }
}

void Iq1M(const uint8_t* b, int i, TableCodes* to) {
  const uint8_t* scales = b + 48;
  int bits = 0;   // the scale of the block is spread over the top bits of the four words of scales
  for (int word = 0; word < 4; ++word) bits |= (U16(scales + word * 2) >> 12) << (4 * word);
  const float d = F16BitsToF32(static_cast<uint16_t>(bits));
  const int of_piece = U16(scales + i / 2 * 2) >> (i % 2 * 6);
  for (int h = 0; h < 2; ++h) to->scale[h] = d * static_cast<float>(2 * (of_piece >> (3 * h) & 7) + 1) * kOfTernary;
  for (int g = 0; g < 4; ++g) {
    const int high = b[32 + i * 2 + g / 2] >> (g % 2 * 4) & 15;
    EmitTernary(kIq1[b[4 * i + g] | (high & 7) << 8], (high & 8) != 0, to->codes + g * 8);
  }
}

}  // namespace tenon::blocks
