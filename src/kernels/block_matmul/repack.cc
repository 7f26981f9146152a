#include "kernels/block_matmul/repack.h"

#include <cstring>

#include "base/half.h"
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
  uint16_t super = 0, super_min = 0;   // f16 that scales of bytes are multiplied by
  void Both(float s, float m = 0) { scale[0] = scale[1] = s, min[0] = min[1] = m; }
};
// Piece `i` of a block.
using Extract = void (*)(const uint8_t* b, int i, Piece* p);

void Nibbles(const uint8_t* q, Piece* p) {
  for (int i = 0; i < 16; ++i) p->codes[i] = q[i] & 15, p->codes[16 + i] = q[i] >> 4;
}
// A fifth bit each.
void High(uint32_t bits, Piece* p) {
  for (int i = 0; i < 32; ++i) p->codes[i] = static_cast<uint8_t>(p->codes[i] | (bits >> i & 1) << 4);
}
void Q4_0(const uint8_t* b, int, Piece* p) {
  Nibbles(b + 2, p), p->Both(F16(b));
}
void Q4_1(const uint8_t* b, int, Piece* p) {
  Nibbles(b + 4, p), p->Both(F16(b), -F16(b + 2));
}
void Q5_0(const uint8_t* b, int, Piece* p) {
  Nibbles(b + 6, p), High(U32(b + 2), p), p->Both(F16(b));
}
void Q5_1(const uint8_t* b, int, Piece* p) {
  Nibbles(b + 8, p), High(U32(b + 4), p), p->Both(F16(b), -F16(b + 2));
}
void Q8_0(const uint8_t* b, int, Piece* p) {
  for (int i = 0; i < 32; ++i) p->codes[i] = b[2 + i] ^ 0x80;
  p->Both(F16(b));
}
void Q2_K(const uint8_t* b, int i, Piece* p) {
  const uint8_t* q = b + 16 + i / 4 * 32;
  for (int e = 0; e < 32; ++e) p->codes[e] = q[e] >> (i % 4 * 2) & 3;
  for (int h = 0; h < 2; ++h) {
    p->scale[h] = static_cast<float>(b[i * 2 + h] & 15);
    p->min[h] = static_cast<float>(b[i * 2 + h] >> 4);
  }
  p->super = U16(b + 80), p->super_min = U16(b + 82);
}
void Q3_K(const uint8_t* b, int i, Piece* p) {
  const uint8_t* q = b + 32 + i / 4 * 32;
  int8_t scales[16];
  ScalesQ3K(b + 96, scales);
  for (int e = 0; e < 32; ++e) {
    p->codes[e] = static_cast<uint8_t>((q[e] >> (i % 4 * 2) & 3) | (b[e] >> i & 1) << 2);
  }
  for (int h = 0; h < 2; ++h) p->scale[h] = scales[i * 2 + h];
  p->super = U16(b + 108);
}
void ScaleK4(const uint8_t* b, int i, Piece* p) {
  uint8_t scale = 0, min = 0;
  ScaleMinK4(b + 4, i, &scale, &min);
  p->Both(scale, min);
  p->super = U16(b), p->super_min = U16(b + 2);
}
void Q4_K(const uint8_t* b, int i, Piece* p) {
  const uint8_t* q = b + 16 + i / 2 * 32;
  for (int e = 0; e < 32; ++e) p->codes[e] = q[e] >> (i % 2 * 4) & 15;
  ScaleK4(b, i, p);
}
void Q5_K(const uint8_t* b, int i, Piece* p) {
  const uint8_t* q = b + 48 + i / 2 * 32;
  for (int e = 0; e < 32; ++e) p->codes[e] = static_cast<uint8_t>((q[e] >> (i % 2 * 4) & 15) | (b[16 + e] >> i & 1) << 4);
  ScaleK4(b, i, p);
}
void Q6_K(const uint8_t* b, int i, Piece* p) {
  const int half = i / 4, quarter = i % 4;
  const uint8_t *low = b + half * 64 + quarter % 2 * 32, *high = b + 128 + half * 32;
  for (int e = 0; e < 32; ++e) {
    p->codes[e] = static_cast<uint8_t>((low[e] >> (quarter / 2 * 4) & 15) | (high[e] >> (quarter * 2) & 3) << 4);
  }
  for (int h = 0; h < 2; ++h) p->scale[h] = static_cast<int8_t>(b[192 + i * 2 + h]);
  p->super = U16(b + 208);
}
void Iq4Xs(const uint8_t* b, int i, Piece* p) {
  Nibbles(b + 8 + i * 16, p), p->Both(static_cast<float>(ScaleIq4Xs(b, i)));
  p->super = U16(b);
}
void Mxfp4(const uint8_t* b, int, Piece* p) {
  Nibbles(b + 1, p), p->Both(HalfOfE8M0(b[0]));
}
void Tq2_0(const uint8_t* b, int i, Piece* p) {
  const uint8_t* q = b + i / 4 * 32;
  for (int e = 0; e < 32; ++e) p->codes[e] = q[e] >> (i % 4 * 2) & 3;
  p->Both(F16(b + 64));
}

struct Values {
  uint8_t v[16];
};
constexpr Values Shifted(const int8_t* from) {
  Values t{};
  for (int i = 0; i < 16; ++i) t.v[i] = static_cast<uint8_t>(from[i] + 128);
  return t;
}
constexpr Values kIq4 = Shifted(kIq4Values), kMx = Shifted(kMxfp4Values);

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
    {"mxfp4", {kN, Scales::kF32, false, false, kMx.v, 128}, Mxfp4},
    {"tq2_0", {kN, Scales::kF16, false, false, nullptr, 1}, Tq2_0},
};
// What has no line there is unpacked.
constexpr Packing kUnpacked = {"", {Codes::kF32}, nullptr};

const Packing& PackingOf(const BlockFormat& format) {
  for (const Packing& p : kPackings) {
    if (p.format == format.name) return p;
  }
  return kUnpacked;
}

void PutScale(const Layout& layout, uint8_t* to, int index, float v) {
  if (layout.scales == Scales::kF32) {
    std::memcpy(to + index * 4, &v, 4);
  } else if (layout.scales == Scales::kBytes) {
    to[index] = static_cast<uint8_t>(static_cast<int8_t>(v));
  } else {
    const uint16_t h = F32ToF16Bits(v);   // exact: it was one
    std::memcpy(to + index * 2, &h, 2);
  }
}

// What lies above the nibbles of codes of five and six bits, to the bytes of `column`.
void PutHigh(const Layout& layout, const uint8_t* codes, int column, uint8_t* to) {
  for (int e = 0; e < 4; ++e) {
    unsigned bytes[2] = {0, 0};
    for (int j = 0; j < 4; ++j) {
      const unsigned first = codes[4 * j + e] >> 4, last = codes[16 + 4 * j + e] >> 4;
      layout.codes == Codes::kFive ? bytes[0] |= first << (4 + j) | last << j
                                   : bytes[j / 2] |= first << (4 + j % 2 * 2) | last << (j % 2 * 2);
    }
    to[column * 4 + e] = static_cast<uint8_t>(bytes[0]);
    if (layout.codes == Codes::kSix) to[64 + column * 4 + e] = static_cast<uint8_t>(bytes[1]);
  }
}

void PutPiece(const Layout& layout, const Piece& p, int column, uint8_t* to) {
  for (int i = 0; i < 32; i += 4) {
    if (layout.codes == Codes::kBytes) {
      std::memcpy(to + i / 4 * 64 + column * 4, p.codes + i, 4);
    } else if (i < 16) {
      for (int j = 0; j < 4; ++j)
        to[i / 4 * 64 + column * 4 + j] = static_cast<uint8_t>((p.codes[i + j] & 15) | p.codes[i + 16 + j] << 4);
    }
  }
  if (layout.codes == Codes::kFive || layout.codes == Codes::kSix) PutHigh(layout, p.codes, column, to + 256);
  uint8_t* scales = to + layout.code_bytes();
  for (int h = 0; h < (layout.halves ? 2 : 1); ++h) {
    PutScale(layout, scales, h * 16 + column, p.scale[h]);
    if (layout.has_min) PutScale(layout, scales + layout.scale_bytes(), h * 16 + column, p.min[h]);
  }
}

// For 256 elements, to `to`.
void PutSupers(const Layout& layout, const Piece& p, int column, uint8_t* to) {
  std::memcpy(to + column * 2, &p.super, 2);
  if (layout.has_min) std::memcpy(to + 32 + column * 2, &p.super_min, 2);
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
      const auto negated = static_cast<uint16_t>(U16(from + 2) ^ 0x8000);
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
  const int pieces = format.elements / 32;
  for (int c = 0; c < 16; ++c) {
    if (rows[c] == nullptr) continue;
    for (int64_t b = 0; b < blocks; ++b) {
      Piece p;
      extract(rows[c] + b / pieces * format.bytes, static_cast<int>(b % pieces), &p);
      PutPiece(layout, p, c, to + b * layout.block_bytes());
      if (layout.scales != Scales::kBytes || b % kBlocksOfSuper != 0) continue;
      const int64_t of_one = layout.has_min ? 64 : 32;
      PutSupers(layout, p, c, to + blocks * layout.block_bytes() + b / kBlocksOfSuper * of_one);
    }
  }
}

}  // namespace tenon::kernels::block_matmul
