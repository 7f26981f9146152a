// Depthwise lines over a vector type Vec (gemm/vec_*.inl). Included inside an anonymous namespace; the file defines
// LoadC(const uint16_t*, n, whole) for bf16.
#define UNROLL _Pragma("GCC unroll 32")

using T = Vec::T;

inline T LoadC(const float* p, int64_t n, bool whole) { return whole ? Vec::Load(p) : Vec::LoadN(p, n); }

template <typename Line>
inline void Finish(const Line& d, int64_t ow, int64_t c, int64_t n, bool whole, T acc) {
  const int64_t at = (ow - d.begin) * d.y_step + c;
  if (d.residual != nullptr) acc = Vec::Add(acc, LoadC(d.residual + ow * d.pixel_step + c, n, whole));
  acc = Vec::Min(Vec::Set(d.hi), Vec::Max(Vec::Set(d.lo), acc));
  if (whole) {
    Vec::Store(d.y + at, acc);
  } else {
    Vec::StoreN(d.y + at, acc, n);
  }
}

// TW neighbouring outputs, one vector of channels, a window KW wide. Each input column is loaded once and used by every output
// whose window holds it. kEdge: only columns [j0, j1) of the tile exist.
template <int KW, int S, int TW, bool kWhole, bool kEdge, typename Line>
inline void TileVector(const Line& d, decltype(Line::x) x, int64_t ow, int64_t c, int64_t n, int64_t j0, int64_t j1) {
  const T bias = d.bias != nullptr ? LoadC(d.bias + c, n, kWhole) : Vec::Zero();
  T acc[TW];
  UNROLL for (int i = 0; i < TW; ++i) acc[i] = bias;
  const float* w = d.w + c;
  x += c;
  for (int64_t r = 0; r < d.rows; ++r, x += d.row_step) {
    T wv[KW];
    UNROLL for (int k = 0; k < KW; ++k, w += d.w_step) wv[k] = Vec::Load(w);
    auto column = x;
    UNROLL for (int j = 0; j < (TW - 1) * S + KW; ++j, column += d.pixel_step) {
      if (kEdge && (j < j0 || j >= j1)) continue;
      const T v = LoadC(column, n, kWhole);
      UNROLL for (int k = 0; k < KW; ++k) {
        if (j >= k && (j - k) % S == 0 && (j - k) / S < TW) acc[(j - k) / S] = Vec::Fma(v, wv[k], acc[(j - k) / S]);
      }
    }
  }
  UNROLL for (int i = 0; i < TW; ++i) Finish(d, ow + i, c, n, kWhole, acc[i]);
}

template <int KW, int S, int TW, typename Line>
void Tile(const Line& d, int64_t ow) {
  constexpr int kLanes = Vec::kLanes;
  constexpr int64_t kColumns = (TW - 1) * S + KW;
  const int64_t first = ow * S - d.pad;
  const auto x = d.x + first * d.pixel_step;
  const int64_t j0 = first < 0 ? -first : 0;
  const int64_t j1 = first + kColumns > d.in_w ? d.in_w - first : kColumns;
  int64_t c = 0;
  if (j0 == 0 && j1 == kColumns) {
    for (; c + kLanes <= d.channels; c += kLanes) TileVector<KW, S, TW, true, false>(d, x, ow, c, kLanes, 0, kColumns);
  } else {
    for (; c + kLanes <= d.channels; c += kLanes) TileVector<KW, S, TW, true, true>(d, x, ow, c, kLanes, j0, j1);
  }
  if (c < d.channels) TileVector<KW, S, TW, false, true>(d, x, ow, c, d.channels - c, j0, j1);
}

// One output of any window.
template <typename Line>
void Single(const Line& d, int64_t ow) {
  constexpr int kLanes = Vec::kLanes;
  const int64_t first = ow * d.stride - d.pad;
  int64_t k0 = 0;
  int64_t k1 = d.kernel_w;
  while (k0 < k1 && first + k0 * d.dilation < 0) ++k0;
  while (k1 > k0 && first + (k1 - 1) * d.dilation >= d.in_w) --k1;
  const auto x = d.x + first * d.pixel_step;
  for (int64_t c = 0; c < d.channels; c += kLanes) {
    const int64_t n = d.channels - c;
    const bool whole = n >= kLanes;
    T acc = d.bias != nullptr ? LoadC(d.bias + c, n, whole) : Vec::Zero();
    for (int64_t r = 0; r < d.rows; ++r) {
      const auto row = x + r * d.row_step + c;
      const float* w = d.w + r * d.kernel_w * d.w_step + c;
      for (int64_t k = k0; k < k1; ++k) {
        acc = Vec::Fma(LoadC(row + k * d.dilation * d.pixel_step, n, whole), Vec::Load(w + k * d.w_step), acc);
      }
    }
    Finish(d, ow, c, n, whole, acc);
  }
}

template <int KW, int S, typename Line>
void Tiles(const Line& d) {
  using Function = void (*)(const Line&, int64_t);
  static constexpr Function kBySize[] = {nullptr,        Tile<KW, S, 1>, Tile<KW, S, 2>, Tile<KW, S, 3>, Tile<KW, S, 4>,
                                         Tile<KW, S, 5>, Tile<KW, S, 6>, Tile<KW, S, 7>, Tile<KW, S, 8>};
  int64_t ow = d.begin;
  for (int64_t left = (d.end - d.begin + 7) / 8; left > 0; --left) {
    // Equal sizes rather than a short last one.
    const int64_t size = (d.end - ow + left - 1) / left;
    kBySize[size](d, ow);
    ow += size;
  }
}

template <typename Line>
void RunLine(const Line& d) {
  if (d.dilation == 1 && d.kernel_w == 3 && d.stride == 1) {
    Tiles<3, 1>(d);
  } else if (d.dilation == 1 && d.kernel_w == 3 && d.stride == 2) {
    Tiles<3, 2>(d);
  } else if (d.dilation == 1 && d.kernel_w == 5 && d.stride == 1) {
    Tiles<5, 1>(d);
  } else if (d.dilation == 1 && d.kernel_w == 5 && d.stride == 2) {
    Tiles<5, 2>(d);
  } else {
    for (int64_t ow = d.begin; ow < d.end; ++ow) Single(d, ow);
  }
}
