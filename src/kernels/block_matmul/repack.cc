#include "kernels/block_matmul/repack.h"

#include <cstring>

#include "base/half.h"
#include "tensor/blocks/iq.h"
#include "tensor/blocks/read.h"

namespace tenon::kernels::block_matmul {
namespace {

using blocks::F16;
using blocks::U16;
using blocks::U32;

// 32 elements of a row: codes, and scale and minimum of each half.
struct Piece {
  uint8_t codes[32] = {};
  float scale[2] = {0, 0};
  float min[2] = {0, 0};
  uint16_t f16 = 0, f16_min = 0;   // what scales of bytes are multiplied by; or scale and minimum themselves
  void Both(float s, float m = 0) { scale[0] = scale[1] = s, min[0] = min[1] = m; }
};
// Piece `i` of a block.
using Extract = void (*)(const uint8_t* b, int i, Piece* p);

// Eight codes at a time, a byte each.
constexpr uint64_t Each(uint8_t byte) {
  return byte * 0x0101010101010101U;
}
uint64_t Eight(const uint8_t* q, int i) {
  uint64_t w = 0;
  std::memcpy(&w, q + 8 * i, 8);
  return w;
}
// codes(i): of elements 8i to 8i + 7.
template <typename F>
void PutCodes(Piece* p, const F& codes) {
  for (int i = 0; i < 4; ++i) {
    const uint64_t w = codes(i);
    std::memcpy(p->codes + 8 * i, &w, 8);
  }
}
// Byte i of eight: bit i of `bits`, as bit 4.
uint64_t FifthBits(uint32_t bits) {
  const uint64_t one_each = Each(static_cast<uint8_t>(bits)) & 0x8040201008040201U;
  return (one_each + Each(0x7f)) >> 3 & Each(0x10);
}
uint64_t Nibbles(const uint8_t* q, int i) {
  return Eight(q, i % 2) >> (i / 2 * 4) & Each(15);
}
uint16_t Negated(uint16_t f16) {
  return f16 ^ 0x8000;
}
void Q4_0(const uint8_t* b, int, Piece* p) {
  PutCodes(p, [&](int i) { return Nibbles(b + 2, i); });
  p->f16 = U16(b);
}
void Q4_1(const uint8_t* b, int, Piece* p) {
  PutCodes(p, [&](int i) { return Nibbles(b + 4, i); });
  p->f16 = U16(b), p->f16_min = Negated(U16(b + 2));
}
void Q5_0(const uint8_t* b, int, Piece* p) {
  PutCodes(p, [&](int i) { return Nibbles(b + 6, i) | FifthBits(U32(b + 2) >> (8 * i)); });
  p->f16 = U16(b);
}
void Q5_1(const uint8_t* b, int, Piece* p) {
  PutCodes(p, [&](int i) { return Nibbles(b + 8, i) | FifthBits(U32(b + 4) >> (8 * i)); });
  p->f16 = U16(b), p->f16_min = Negated(U16(b + 2));
}
void Q8_0(const uint8_t* b, int, Piece* p) {
  PutCodes(p, [&](int i) { return Eight(b + 2, i) ^ Each(0x80); });
  p->f16 = U16(b);
}
void Q2_K(const uint8_t* b, int i, Piece* p) {
  const uint8_t* q = b + 16 + i / 4 * 32;
  PutCodes(p, [&](int e) { return Eight(q, e) >> (i % 4 * 2) & Each(3); });
  for (int h = 0; h < 2; ++h) {
    p->scale[h] = static_cast<float>(b[i * 2 + h] & 15);
    p->min[h] = static_cast<float>(b[i * 2 + h] >> 4);
  }
  p->f16 = U16(b + 80), p->f16_min = U16(b + 82);
}
void Q3_K(const uint8_t* b, int i, Piece* p) {
  const uint8_t* q = b + 32 + i / 4 * 32;
  int8_t scales[16];
  ScalesQ3K(b + 96, scales);
  PutCodes(p, [&](int e) { return (Eight(q, e) >> (i % 4 * 2) & Each(3)) | (Eight(b, e) >> i & Each(1)) << 2; });
  for (int h = 0; h < 2; ++h) p->scale[h] = scales[i * 2 + h];
  p->f16 = U16(b + 108);
}
void ScaleK4(const uint8_t* b, int i, Piece* p) {
  uint8_t scale = 0, min = 0;
  ScaleMinK4(b + 4, i, &scale, &min);
  p->Both(scale, min);
  p->f16 = U16(b), p->f16_min = U16(b + 2);
}
void Q4_K(const uint8_t* b, int i, Piece* p) {
  const uint8_t* q = b + 16 + i / 2 * 32;
  PutCodes(p, [&](int e) { return Eight(q, e) >> (i % 2 * 4) & Each(15); });
  ScaleK4(b, i, p);
}
void Q5_K(const uint8_t* b, int i, Piece* p) {
  const uint8_t* q = b + 48 + i / 2 * 32;
  PutCodes(p, [&](int e) { return (Eight(q, e) >> (i % 2 * 4) & Each(15)) | (Eight(b + 16, e) >> i & Each(1)) << 4; });
  ScaleK4(b, i, p);
}
void Q6_K(const uint8_t* b, int i, Piece* p) {
  const int half = i / 4, quarter = i % 4;
  const uint8_t *low = b + half * 64 + quarter % 2 * 32, *high = b + 128 + half * 32;
  PutCodes(p, [&](int e) {
    return (Eight(low, e) >> (quarter / 2 * 4) & Each(15)) | (Eight(high, e) >> (quarter * 2) & Each(3)) << 4;
  });
  for (int h = 0; h < 2; ++h) p->scale[h] = static_cast<int8_t>(b[192 + i * 2 + h]);
  p->f16 = U16(b + 208);
}
void Iq4Xs(const uint8_t* b, int i, Piece* p) {
  PutCodes(p, [&](int e) { return Nibbles(b + 8 + i * 16, e); });
  p->Both(static_cast<float>(ScaleIq4Xs(b, i)));
  p->f16 = U16(b);
}
void Mxfp4(const uint8_t* b, int, Piece* p) {
  PutCodes(p, [&](int i) { return Nibbles(b + 1, i); });
  p->Both(HalfOfE8M0(b[0]));
}
void Tq1_0(const uint8_t* b, int i, Piece* p) {
  for (int e = 0; e < 32; ++e) p->codes[e] = static_cast<uint8_t>(DigitTq1(b, 32 * i + e));
  p->f16 = U16(b + 52);
}
void Tq2_0(const uint8_t* b, int i, Piece* p) {
  const uint8_t* q = b + i / 4 * 32;
  PutCodes(p, [&](int e) { return Eight(q, e) >> (i % 4 * 2) & Each(3); });
  p->f16 = U16(b + 64);
}

template <void (*kPiece)(const uint8_t*, int, blocks::TableCodes*)>
void OfTable(const uint8_t* b, int i, Piece* p) {
  blocks::TableCodes piece;
  kPiece(b, i, &piece);
  std::memcpy(p->codes, piece.codes, 32);
  std::memcpy(p->scale, piece.scale, sizeof p->scale);
}

struct Values {
  uint8_t v[16];
};
constexpr Values Shifted(const int8_t* from) {
  Values t{};
  for (int i = 0; i < 16; ++i) t.v[i] = static_cast<uint8_t>(from[i] + 128);
  return t;
}
constexpr Values kIq4 = Shifted(kIq4Values), kMx = Shifted(kMxfp4Values), kIq1 = Shifted(blocks::kIq1Values),
                 kIq2 = Shifted(blocks::kIq2Values), kIq3Xxs = Shifted(blocks::kIq3XxsValues),
                 kIq3S = Shifted(blocks::kIq3SValues);

struct Packing {
  std::string_view format;
  Layout layout;
  Extract extract;   // null: floats
};
constexpr Codes kN = Codes::kNibbles;
// Of layouts: codes, scales, has_min, halves, table, zero.
constexpr Packing kPackings[] = {
    {"f16", {Codes::kF16}, nullptr},
    {"bf16", {Codes::kBf16}, nullptr},
    {"q4_0", {kN, Scales::kF16, false, false, nullptr, 8}, Q4_0},
    {"q4_1", {kN, Scales::kF16, true, false, nullptr, 0}, Q4_1},
    {"q5_0", {Codes::kFive, Scales::kF16, false, false, nullptr, 16}, Q5_0},
    {"q5_1", {Codes::kFive, Scales::kF16, true, false, nullptr, 0}, Q5_1},
    {"q8_0", {Codes::kBytes, Scales::kF16, false, false, nullptr, 128}, Q8_0},
    {"q2_k", {kN, Scales::kBytes, true, true, nullptr, 0}, Q2_K},
    {"q3_k", {kN, Scales::kBytes, false, true, nullptr, 4}, Q3_K},
    {"q4_k", {kN, Scales::kBytes, true, false, nullptr, 0}, Q4_K},
    {"q5_k", {Codes::kFive, Scales::kBytes, true, false, nullptr, 0}, Q5_K},
    {"q6_k", {Codes::kSix, Scales::kBytes, false, true, nullptr, 32}, Q6_K},
    {"iq4_nl", {kN, Scales::kF16, false, false, kIq4.v, 128}, Q4_0},
    {"iq4_xs", {kN, Scales::kBytes, false, false, kIq4.v, 128}, Iq4Xs},
    {"iq1_s", {kN, Scales::kF32, false, false, kIq1.v, 128}, OfTable<blocks::Iq1S>},
    {"iq1_m", {kN, Scales::kF32, false, true, kIq1.v, 128}, OfTable<blocks::Iq1M>},
    {"iq2_xxs", {kN, Scales::kF32, false, false, kIq2.v, 128}, OfTable<blocks::Iq2Xxs>},
    {"iq2_xs", {kN, Scales::kF32, false, true, kIq2.v, 128}, OfTable<blocks::Iq2Xs>},
    {"iq2_s", {kN, Scales::kF32, false, true, kIq2.v, 128}, OfTable<blocks::Iq2S>},
    {"iq3_xxs", {kN, Scales::kF32, false, false, kIq3Xxs.v, 128}, OfTable<blocks::Iq3Xxs>},
    {"iq3_s", {kN, Scales::kF32, false, false, kIq3S.v, 128}, OfTable<blocks::Iq3S>},
    {"mxfp4", {kN, Scales::kF32, false, false, kMx.v, 128}, Mxfp4},
    {"tq1_0", {kN, Scales::kF16, false, false, nullptr, 1}, Tq1_0},
    {"tq2_0", {kN, Scales::kF16, false, false, nullptr, 1}, Tq2_0},
};
// f32, and what has no line there.
constexpr Packing kUnpacked = {"", {Codes::kF32}, nullptr};

const Packing& PackingOf(const BlockFormat& format) {
  for (const Packing& p : kPackings) {
    if (p.format == format.name) return p;
  }
  return kUnpacked;
}

// Of one column, as f32 or bytes.
void PutScale(const Layout& layout, uint8_t* to, int index, float v) {
  if (layout.scales == Scales::kF32) {
    std::memcpy(to + index * 4, &v, 4);
  } else {
    to[index] = static_cast<uint8_t>(static_cast<int8_t>(v));
  }
}

uint32_t Word(const uint8_t* p) {
  uint32_t w = 0;
  std::memcpy(&w, p, 4);
  return w;
}

// Codes of sixteen columns: words[j][column] are elements 4j.. of 32.
void PackCodes(Codes codes, const uint32_t (&words)[8][16], uint8_t* to) {
  if (codes == Codes::kBytes) {
    std::memcpy(to, words, sizeof words);
    return;
  }
  constexpr uint32_t kNibble = 0x0f0f0f0f, kOneBit = 0x01010101, kTwoBits = 0x03030303;
  uint32_t nibbles[4][16], high[2][16] = {};
  for (int j = 0; j < 4; ++j) {
    for (int c = 0; c < 16; ++c) nibbles[j][c] = (words[j][c] & kNibble) | (words[4 + j][c] & kNibble) << 4;
  }
  std::memcpy(to, nibbles, sizeof nibbles);
  if (codes == Codes::kNibbles) return;
  const bool five = codes == Codes::kFive;
  for (int j = 0; j < 4; ++j) {
    const uint32_t mask = five ? kOneBit : kTwoBits;
    const int part = five ? 0 : j / 2, shift = five ? j : j % 2 * 2;
    for (int c = 0; c < 16; ++c) {
      high[part][c] |= (words[j][c] >> 4 & mask) << (4 + shift) | (words[4 + j][c] >> 4 & mask) << shift;
    }
  }
  std::memcpy(to + 256, high, five ? 64 : 128);
}

void PutF16(const Layout& layout, const Piece (&pieces)[16], uint8_t* to) {
  for (int c = 0; c < 16; ++c) std::memcpy(to + c * 2, &pieces[c].f16, 2);
  for (int c = 0; c < 16 && layout.has_min; ++c) std::memcpy(to + 32 + c * 2, &pieces[c].f16_min, 2);
}

// A block of sixteen columns.
void PackBlock(const Layout& layout, const Piece (&pieces)[16], uint8_t* to) {
  uint32_t words[8][16];
  for (int c = 0; c < 16; ++c) {
    for (int j = 0; j < 8; ++j) words[j][c] = Word(pieces[c].codes + 4 * j);
  }
  PackCodes(layout.codes, words, to);
  uint8_t *scales = to + layout.code_bytes(), *minima = scales + layout.scale_bytes();
  if (layout.scales == Scales::kF16) return PutF16(layout, pieces, scales);
  for (int h = 0; h < (layout.halves ? 2 : 1); ++h) {
    for (int c = 0; c < 16; ++c) PutScale(layout, scales, h * 16 + c, pieces[c].scale[h]);
    for (int c = 0; c < 16 && layout.has_min; ++c) PutScale(layout, minima, h * 16 + c, pieces[c].min[h]);
  }
}

// Formats whose nibbles lie as ours do: `offset` bytes of f16 scale (and minimum) before them.
void PackNibbles(const BlockFormat& format, const Layout& layout, const uint8_t* const* rows, int64_t blocks, uint8_t* to) {
  const int64_t step = layout.block_bytes(), offset = layout.has_min ? 4 : 2;
  for (int c = 0; c < 16; ++c) {
    const uint8_t* from = rows[c];
    uint8_t* out = to;
    for (int64_t b = 0; b < blocks && from != nullptr; ++b, from += format.bytes, out += step) {
      for (int j = 0; j < 4; ++j) std::memcpy(out + j * 64 + c * 4, from + offset + j * 4, 4);
      std::memcpy(out + 256 + c * 2, from, 2);
      if (!layout.has_min) continue;
      const uint16_t negated = Negated(U16(from + 2));
      std::memcpy(out + 288 + c * 2, &negated, 2);
    }
  }
}

void PackFloats(const BlockFormat& format, const Layout& layout, const uint8_t* const* rows, int64_t k, uint8_t* to) {
  const int64_t each = layout.codes == Codes::kF32 ? 4 : 2;
  float values[256];
  for (int c = 0; c < 16; ++c) {
    if (rows[c] == nullptr) continue;
    if (each == 2) {
      const bool pairs = layout.codes == Codes::kBf16;
      for (int64_t d = 0; d < k; ++d) {
        std::memcpy(to + 2 * (pairs ? d / 2 * 32 + c * 2 + d % 2 : d * 16 + c), rows[c] + d * 2, 2);
      }
      continue;
    }
    const int64_t elements = format.elements;   // at most 256
    for (int64_t d = 0; d < k; d += elements) {
      format.unpack(rows[c] + d / elements * format.bytes, values);
      for (int64_t i = 0; i < elements; ++i) std::memcpy(to + ((d + i) * 16 + c) * 4, values + i, 4);
    }
  }
}

}  // namespace

Layout LayoutOf(const BlockFormat& format) {
  return PackingOf(format).layout;
}

void PackGroup(const BlockFormat& format, const Layout& layout, const uint8_t* const* rows, int64_t k, uint8_t* to) {
  const int64_t blocks = (k + 31) / 32;
  const bool whole = k % 32 == 0 && rows[15] != nullptr;
  if (!whole) std::memset(to, 0, static_cast<size_t>(layout.group_bytes(blocks)));
  if (layout.is_float()) return PackFloats(format, layout, rows, k, to);
  if (layout.codes == Codes::kNibbles && layout.scales == Scales::kF16 && format.elements == 32)
    return PackNibbles(format, layout, rows, blocks, to);
  const Extract extract = PackingOf(format).extract;
  const int pieces_of_block = format.elements / 32;
  uint8_t* supers = to + blocks * layout.block_bytes();
  for (int64_t b = 0; b < blocks; ++b, to += layout.block_bytes()) {
    Piece pieces[16];
    for (int c = 0; c < 16; ++c) {
      if (rows[c] != nullptr)
        extract(rows[c] + b / pieces_of_block * format.bytes, static_cast<int>(b % pieces_of_block), &pieces[c]);
    }
    PackBlock(layout, pieces, to);
    if (layout.scales != Scales::kBytes || b % kBlocksOfSuper != 0) continue;
    PutF16(layout, pieces, supers);
    supers += layout.has_min ? 64 : 32;
  }
}

}  // namespace tenon::kernels::block_matmul
