#include "tensor/blocks/blocks.h"

#include <bit>

#include "tensor/blocks/iq.h"
#include "tensor/blocks/read.h"

namespace tenon {
namespace blocks {
namespace {

void F32Block(const uint8_t* b, float* out) {
  out[0] = std::bit_cast<float>(U32(b));
}
void F16Block(const uint8_t* b, float* out) {
  out[0] = F16(b);
}
void Bf16Block(const uint8_t* b, float* out) {
  out[0] = BF16BitsToF32(U16(b));
}

// Element i of a block of 32 nibbles: low halves first.
int Nibble(const uint8_t* q, int i) {
  return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

void Q4_0(const uint8_t* b, float* out) {
  const float d = F16(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble(b + 2, i) - 8);
}
void Q4_1(const uint8_t* b, float* out) {
  const float d = F16(b), m = F16(b + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble(b + 4, i)) + m;
}
void Q5_0(const uint8_t* b, float* out) {
  const float d = F16(b);
  const uint32_t high = U32(b + 2);
  for (int i = 0; i < 32; ++i) {
    const int q = Nibble(b + 6, i) | static_cast<int>(high >> i & 1) << 4;
    out[i] = d * static_cast<float>(q - 16);
  }
}
void Q5_1(const uint8_t* b, float* out) {
  const float d = F16(b), m = F16(b + 2);
  const uint32_t high = U32(b + 4);
  for (int i = 0; i < 32; ++i) {
    const int q = Nibble(b + 8, i) | static_cast<int>(high >> i & 1) << 4;
    out[i] = d * static_cast<float>(q) + m;
  }
}
void Q8_0(const uint8_t* b, float* out) {
  const float d = F16(b);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<int8_t>(b[2 + i])) * d;
}

void Q2_K(const uint8_t* b, float* out) {
  const uint8_t* q = b + 16;
  const float d = F16(b + 80), min = F16(b + 82);
  for (int g = 0; g < 16; ++g) {
    const float dl = d * static_cast<float>(b[g] & 15), ml = min * static_cast<float>(b[g] >> 4);
    for (int i = 0; i < 16; ++i) {
      const int at = g * 16 + i;   // 128 elements share 32 bytes, two bits at a time
      const int v = q[at / 128 * 32 + at % 32] >> (at / 32 % 4 * 2) & 3;
      out[at] = dl * static_cast<float>(v) - ml;
    }
  }
}
void Q3_K(const uint8_t* b, float* out) {
  const uint8_t *mask = b, *q = b + 32;
  int8_t scales[16];
  ScalesQ3K(b + 96, scales);
  const float d = F16(b + 108);
  for (int at = 0; at < 256; ++at) {
    const int low = q[at / 128 * 32 + at % 32] >> (at / 32 % 4 * 2) & 3;
    const int v = low - ((mask[at % 32] >> (at / 32) & 1) != 0 ? 0 : 4);
    out[at] = d * static_cast<float>(scales[at / 16]) * static_cast<float>(v);
  }
}
void Q4_K(const uint8_t* b, float* out) {
  const float d = F16(b), min = F16(b + 2);
  for (int g = 0; g < 8; ++g) {
    uint8_t scale = 0, m = 0;
    ScaleMinK4(b + 4, g, &scale, &m);
    const float dl = d * static_cast<float>(scale), ml = min * static_cast<float>(m);
    const uint8_t* q = b + 16 + g / 2 * 32;
    for (int i = 0; i < 32; ++i) out[g * 32 + i] = dl * static_cast<float>(q[i] >> (g % 2 * 4) & 15) - ml;
  }
}
void Q5_K(const uint8_t* b, float* out) {
  const float d = F16(b), min = F16(b + 2);
  for (int g = 0; g < 8; ++g) {
    uint8_t scale = 0, m = 0;
    ScaleMinK4(b + 4, g, &scale, &m);
    const float dl = d * static_cast<float>(scale), ml = min * static_cast<float>(m);
    const uint8_t *high = b + 16, *q = b + 48 + g / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int v = (q[i] >> (g % 2 * 4) & 15) | (high[i] >> g & 1) << 4;
      out[g * 32 + i] = dl * static_cast<float>(v) - ml;
    }
  }
}
void Q6_K(const uint8_t* b, float* out) {
  const uint8_t *low = b, *high = b + 128;
  const float d = F16(b + 208);
  for (int at = 0; at < 256; ++at) {
    const int half = at / 128, quarter = at / 32 % 4, i = at % 32;
    const int nibble = low[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
    const int v = (nibble | (high[half * 32 + i] >> (quarter * 2) & 3) << 4) - 32;
    out[at] = d * static_cast<float>(static_cast<int8_t>(b[192 + at / 16])) * static_cast<float>(v);
  }
}

void Iq4Nl(const uint8_t* b, float* out) {
  const float d = F16(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kIq4Values[Nibble(b + 2, i)]);
}
void Iq4Xs(const uint8_t* b, float* out) {
  const float d = F16(b);
  for (int g = 0; g < 8; ++g) {
    const float dl = d * static_cast<float>(ScaleIq4Xs(b, g));
    for (int i = 0; i < 32; ++i) out[g * 32 + i] = dl * static_cast<float>(kIq4Values[Nibble(b + 8 + g * 16, i)]);
  }
}
void Mxfp4(const uint8_t* b, float* out) {
  const float d = HalfOfE8M0(b[0]);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kMxfp4Values[Nibble(b + 1, i)]);
}

template <void (*kPiece)(const uint8_t*, int, TableCodes*), const int8_t (&kValues)[16]>
void OfTable(const uint8_t* b, float* out) {
  for (int i = 0; i < 8; ++i) {
    TableCodes piece;
    kPiece(b, i, &piece);
    for (int e = 0; e < 32; ++e) out[i * 32 + e] = piece.scale[e / 16] * static_cast<float>(kValues[piece.codes[e]]);
  }
}

void Tq1_0(const uint8_t* b, float* out) {
  const float d = F16(b + 52);
  for (int at = 0; at < 256; ++at) out[at] = d * static_cast<float>(DigitTq1(b, at) - 1);
}
void Tq2_0(const uint8_t* b, float* out) {
  const float d = F16(b + 64);
  for (int at = 0; at < 256; ++at) {
    out[at] = d * static_cast<float>((b[at / 128 * 32 + at % 32] >> (at / 32 % 4 * 2) & 3) - 1);
  }
}

constexpr BlockFormat kFormats[] = {
    {"f32", 0, 1, 4, F32Block},
    {"f16", 1, 1, 2, F16Block},
    {"bf16", 30, 1, 2, Bf16Block},
    {"q4_0", 2, 32, 18, Q4_0},
    {"q4_1", 3, 32, 20, Q4_1},
    {"q5_0", 6, 32, 22, Q5_0},
    {"q5_1", 7, 32, 24, Q5_1},
    {"q8_0", 8, 32, 34, Q8_0},
    {"q2_k", 10, 256, 84, Q2_K},
    {"q3_k", 11, 256, 110, Q3_K},
    {"q4_k", 12, 256, 144, Q4_K},
    {"q5_k", 13, 256, 176, Q5_K},
    {"q6_k", 14, 256, 210, Q6_K},
    {"iq2_xxs", 16, 256, 66, OfTable<Iq2Xxs, kIq2Values>},
    {"iq2_xs", 17, 256, 74, OfTable<Iq2Xs, kIq2Values>},
    {"iq3_xxs", 18, 256, 98, OfTable<Iq3Xxs, kIq3XxsValues>},
    {"iq1_s", 19, 256, 50, OfTable<Iq1S, kIq1Values>},
    {"iq4_nl", 20, 32, 18, Iq4Nl},
    {"iq3_s", 21, 256, 110, OfTable<Iq3S, kIq3SValues>},
    {"iq2_s", 22, 256, 82, OfTable<Iq2S, kIq2Values>},
    {"iq4_xs", 23, 256, 136, Iq4Xs},
    {"iq1_m", 29, 256, 56, OfTable<Iq1M, kIq1Values>},
    {"tq1_0", 34, 256, 54, Tq1_0},
    {"tq2_0", 35, 256, 66, Tq2_0},
    {"mxfp4", 39, 32, 17, Mxfp4},
};

}  // namespace
}  // namespace blocks

std::span<const BlockFormat> BlockFormats() {
  return blocks::kFormats;
}

const BlockFormat* FindBlockFormat(std::string_view name) {
  for (const BlockFormat& f : blocks::kFormats) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

const BlockFormat* FindBlockFormat(uint32_t gguf_type) {
  for (const BlockFormat& f : blocks::kFormats) {
    if (f.gguf_type == gguf_type) return &f;
  }
  return nullptr;
}

void UnpackRow(const BlockFormat& format, const uint8_t* row, int64_t k, float* out) {
  for (int64_t i = 0; i < k; i += format.elements, row += format.bytes) format.unpack(row, out + i);
}

float HalfOfE8M0(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? uint32_t{0x00200000} << e : static_cast<uint32_t>(e - 1) << 23);
}

void ScaleMinK4(const uint8_t* scales, int i, uint8_t* scale, uint8_t* min) {
  if (i < 4) {
    *scale = scales[i] & 63, *min = scales[i + 4] & 63;
    return;
  }
  *scale = static_cast<uint8_t>((scales[i + 4] & 15) | (scales[i - 4] >> 6) << 4);
  *min = static_cast<uint8_t>((scales[i + 4] >> 4) | (scales[i] >> 6) << 4);
}

void ScalesQ3K(const uint8_t* packed, int8_t* scales) {
  for (int i = 0; i < 16; ++i) {
    const int low = packed[i % 8] >> (i / 8 * 4) & 15;
    const int high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
    scales[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

int DigitTq1(const uint8_t* block, int i) {
  // Five digits to the base 3 a byte, as a fraction of 256: multiplying by powers of 3 brings each to the top.
  constexpr uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  const auto digit = [&](int at, int place) { return static_cast<uint8_t>(block[at] * kPowers[place]) * 3 >> 8; };
  if (i < 160) return digit(i % 32, i / 32);
  if (i < 240) return digit(32 + i % 16, (i - 160) / 16);
  return digit(48 + i % 4, (i - 240) / 4);
}

int ScaleIq4Xs(const uint8_t* block, int i) {
  const int low = block[4 + i / 2] >> (i % 2 * 4) & 15;
  const int high = blocks::U16(block + 2) >> (2 * i) & 3;
  return (low | high << 4) - 32;
}

}  // namespace tenon
