// Products and unpacking for instruction sets without better ones of their own. Included after generic.inl.

// Code of element i (of 32) of column c.
static inline int CodeAt(const uint8_t* w, const Layout& layout, int i, int c) {
  const int place = c * 4 + i % 4;
  if (layout.codes == Codes::kBytes) return w[i / 4 * 64 + place];
  const int j = i % 16 / 4, nibble = i < 16 ? w[j * 64 + place] & 15 : w[j * 64 + place] >> 4;
  const int from = i < 16 ? 4 : 0;   // bit of what lies above nibbles
  switch (layout.codes) {
    case Codes::kFive: return nibble | (w[256 + place] >> (from + j) & 1) << 4;
    case Codes::kSix: return nibble | (w[256 + j / 2 * 64 + place] >> (from + j % 2 * 2) & 3) << 4;
    default: return layout.table != nullptr ? layout.table[nibble] : nibble;
  }
}

static inline uint32_t Bf16Of(float f) {
  uint32_t x;
  __builtin_memcpy(&x, &f, 4);
  return (x + 0x7fff + ((x >> 16) & 1)) >> 16;
}

static inline void FloatsOfBlock(const uint8_t* w, Codes codes, int i, float* first, float* second) {
  V a, b;
  codes == Codes::kF32 ? FloatsAt<Codes::kF32>(w, i, &a, &b) : FloatsAt<Codes::kF16>(w, i, &a, &b);
  Store(first, a), Store(second, b);
}

// Elements i of the 32 of a block, of each column.
static inline void CodesOfBlock(const uint8_t* block, const Layout& layout, const Factors& factors, int i, float* to) {
  for (int c = 0; c < 16; ++c) to[c] = static_cast<float>(CodeAt(block, layout, i, c) - layout.zero);
  Store(to, Sub(Mul(Load(to), factors.Scale(i / 16)), factors.Min(i / 16)));
}

void UnpackPlain(const uint8_t* w, const Layout& layout, int64_t blocks, uint16_t* to) {
  const int64_t step = layout.block_bytes();
  Factors factors(w, layout, blocks);
  for (int64_t b = 0; b < blocks; ++b, w += step, to += 1024) {
    factors.Next(b, w);
    for (int i = 0; i < 32; i += 2) {
      float f[2][16];
      if (layout.is_float()) {
        FloatsOfBlock(w, layout.codes, i, f[0], f[1]);
      } else {
        CodesOfBlock(w, layout, factors, i, f[0]), CodesOfBlock(w, layout, factors, i + 1, f[1]);
      }
      for (int c = 0; c < 32; ++c) to[i / 2 * 32 + c] = static_cast<uint16_t>(Bf16Of(f[c % 2][c / 2]));
    }
  }
}

// Sums of one block are exact integers; then scale and minimum of the column and the scale of the row.
void DotPlain(const Dot& t) {
  const Layout& layout = *t.layout;
  if (layout.is_float()) return DotAnyFloats(t);
  const int halves = layout.halves ? 2 : 1;
  const int64_t step = layout.block_bytes();
  for (int r = 0; r < t.rows; ++r) {
    const RowX& x = t.x[r];
    V acc = Zero();
    Factors factors(t.w, layout, t.blocks);
    for (int64_t b = 0; b < t.blocks; ++b) {
      const uint8_t* w = t.w + b * step;
      factors.Next(b, w);
      for (int half = 0; half < halves; ++half) {
        float sums[16];
        const int32_t sum = halves == 2 ? x.sums[b * 2 + half] : x.sums[b * 2] + x.sums[b * 2 + 1];
        for (int c = 0; c < 16; ++c) {
          int32_t s = -layout.zero * sum;
          for (int i = half * 16; i < (halves == 2 ? half * 16 + 16 : 32); ++i) {
            s += CodeAt(w, layout, i, c) * (256 * x.high[b * 32 + i] + x.low[b * 32 + i]);
          }
          sums[c] = static_cast<float>(s);
        }
        acc = Fma(Mul(Load(sums), factors.Scale(half)), Set(x.scale[b]), acc);
        if (layout.has_min) acc = Sub(acc, Mul(factors.Min(half), Set(x.scale[b] * static_cast<float>(sum))));
      }
    }
    Store(t.y + r * t.y_step, acc);
  }
}
