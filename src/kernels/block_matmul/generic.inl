// The inner functions that are the same for every instruction set, over its V; and plain forms of the others. Included by each
// ISA file after v16/*.inl and factors.inl. Bytes of one block are read as packed.h says.

void Finish(const FinishTask& t) {
  float spare[16];
  for (int64_t r = 0; r < t.rows; ++r) {
    const float* acc = t.acc + r * t.acc_step;
    V v = Load(acc);
    if (t.bias != nullptr) v = Add(v, Load(t.bias));
    if (t.gate != 0) {
      V u = Load(acc + 16);
      if (t.bias2 != nullptr) u = Add(u, Load(t.bias2));
      v = Mul(t.gate == 1 ? Silu(v) : Gelu(v), u);
    }
    float* y = t.y + r * t.y_step;
    const float* residual = t.residual != nullptr ? t.residual + r * t.residual_step : nullptr;
    if (t.n == 16) {
      if (residual != nullptr) v = Add(v, Load(residual));
      Store(y, v);
      continue;
    }
    Store(spare, v);
    for (int64_t i = 0; i < t.n; ++i) y[i] = spare[i] + (residual != nullptr ? residual[i] : 0.0f);
  }
}

// Sixteen elements each of depths d and d + 1 of a float group; d is even.
template <Codes kCodes>
static inline void FloatsAt(const uint8_t* w, int64_t d, V* first, V* second) {
  if constexpr (kCodes == Codes::kF32) {
    const float* p = reinterpret_cast<const float*>(w) + d * 16;
    *first = Load(p), *second = Load(p + 16);
  } else {
    const uint16_t* p = reinterpret_cast<const uint16_t*>(w) + d * 16;
    if constexpr (kCodes == Codes::kBf16) return LoadBPairs(p, first, second);
    *first = LoadH(p), *second = LoadH(p + 16);
  }
}

// How far ahead weights are asked for: the hardware alone looks too near to keep the memory busy.
constexpr int64_t kAhead = 8192;

// A sum is four chains, of depth 0, 1, 2, 3 modulo 4: one would wait for its own last addition. However many rows there are, each
// has the same sums.
template <Codes kCodes, int kRows>
void DotFloats(const Dot& t) {
  constexpr int64_t kChains = 4, kBytes = kCodes == Codes::kF32 ? 64 : 32;
  V acc[kRows][kChains];
  for (auto& row : acc) {
    for (V& a : row) a = Zero();
  }
  for (int64_t d = 0; d < t.blocks * 32; d += kChains) {
    for (int64_t line = 0; line < kChains * kBytes; line += 64) __builtin_prefetch(t.w + d * kBytes + kAhead + line);
#pragma GCC unroll 2
    for (int64_t c = 0; c < kChains; c += 2) {
      V first, second;
      FloatsAt<kCodes>(t.w, d + c, &first, &second);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
        const float* x = t.x[r].x + d + c;
        acc[r][c] = Fma(first, Set(x[0]), acc[r][c]);
        acc[r][c + 1] = Fma(second, Set(x[1]), acc[r][c + 1]);
      }
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r) {
    Store(t.y + r * t.y_step, Add(Add(acc[r][0], acc[r][1]), Add(acc[r][2], acc[r][3])));
  }
}

template <Codes kCodes>
void DotRowsOfFloats(const Dot& t) {
  for (int r = 0; r < t.rows; r += 2) {
    Dot two = t;
    two.x += r, two.y += r * t.y_step;
    r + 1 < t.rows ? DotFloats<kCodes, 2>(two) : DotFloats<kCodes, 1>(two);
  }
}

static inline void DotAnyFloats(const Dot& t) {
  switch (t.layout->codes) {
    case Codes::kF16: return DotRowsOfFloats<Codes::kF16>(t);
    case Codes::kBf16: return DotRowsOfFloats<Codes::kBf16>(t);
    default: return DotRowsOfFloats<Codes::kF32>(t);
  }
}
