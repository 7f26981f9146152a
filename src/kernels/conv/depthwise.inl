// Depthwise lines over a vector type Vec (gemm/vec_*.inl). Included inside an anonymous namespace after
// gemm/bf16_store_*.inl; the file defines LoadC(const uint16_t*, n, whole) for bf16.
#define UNROLL _Pragma("GCC unroll 32")

using T = Vec::T;

inline T LoadC(const float* p, int64_t n, bool whole) { return whole ? Vec::Load(p) : Vec::LoadN(p, n); }

inline void StoreC(float* p, T v, int64_t n, bool whole) { whole ? Vec::Store(p, v) : Vec::StoreN(p, v, n); }
inline void StoreC(uint16_t* p, T v, int64_t n, bool whole) { StoreBf(p, v, whole || n > Vec::kLanes ? Vec::kLanes : n); }

template <int TW, bool kWhole, typename Y>
[[gnu::always_inline]] inline void StoreTile(Y* y, int64_t step, int64_t n, const T* v) {
  UNROLL for (int i = 0; i < TW; ++i) StoreC(y + i * step, v[i], n, kWhole);
}

// Outputs [ow, ow + TW).
template <int TW, bool kWhole, typename Element>
[[gnu::always_inline]] inline void Finish(const DepthwiseLineOf<Element>& d, int64_t ow, int64_t c, int64_t n, T* v) {
  if (d.residual != nullptr) {
    const Element* residual = d.residual + ow * d.pixel_step + c;
    UNROLL for (int i = 0; i < TW; ++i) v[i] = Vec::Add(v[i], LoadC(residual + i * d.pixel_step, n, kWhole));
  }
  if (d.hard_swish) {
    const T one = Vec::Set(1);
    const T half = Vec::Set(0.5F);
    const T sixth = Vec::Set(1.0F / 6);
    const T scale = Vec::Set(d.scale);
    const T shift = Vec::Set(d.shift);
    UNROLL for (int i = 0; i < TW; ++i) {
      v[i] = Vec::Fma(Vec::Mul(v[i], Vec::Max(Vec::Zero(), Vec::Min(one, Vec::Fma(v[i], sixth, half)))), scale, shift);
    }
  } else {
    const T lo = Vec::Set(d.lo);
    const T hi = Vec::Set(d.hi);
    UNROLL for (int i = 0; i < TW; ++i) v[i] = Vec::Min(hi, Vec::Max(lo, v[i]));
  }
  const int64_t at = (ow - d.begin) * d.y_step + c;
  if (d.y_f32) {
    StoreTile<TW, kWhole>(static_cast<float*>(d.y) + at, d.y_step, n, v);
  } else {
    StoreTile<TW, kWhole>(static_cast<Element*>(d.y) + at, d.y_step, n, v);
  }
}

// Where the columns under a tile at an edge lie: base + (offset & mask), or always the same zeros.
template <typename Element, int kColumns>
struct EdgeColumns {
  EdgeColumns(const DepthwiseLineOf<Element>& d, const Element* x, int64_t first) {
    alignas(64) static constexpr Element kZeros[Vec::kLanes] = {};
    for (int64_t j = 0; j < kColumns; ++j) {
      const bool inside = first + j >= 0 && first + j < d.in_w;
      base[j] = inside ? x + j * d.pixel_step : kZeros;
      mask[j] = inside ? -1 : 0;
    }
  }
  const Element* base[kColumns];
  int64_t mask[kColumns];
};

// TW neighbouring outputs, one vector of channels, a window KW wide. Each input column is loaded once and used by every output
// whose window holds it. `edge` null: all columns exist, from x on.
template <int KW, int S, int TW, bool kWhole, bool kEdge, typename Element>
inline void TileVector(const DepthwiseLineOf<Element>& d, const Element* x, const EdgeColumns<Element, (TW - 1) * S + KW>* edge,
                       int64_t ow, int64_t c, int64_t n) {
  const T bias = d.bias != nullptr ? LoadC(d.bias + c, n, kWhole) : Vec::Zero();
  T acc[TW];
  UNROLL for (int i = 0; i < TW; ++i) acc[i] = bias;
  const float* w = d.w + c;
  int64_t at = c;
  for (int64_t r = 0; r < d.rows; ++r, at += d.row_step) {
    T wv[KW];
    UNROLL for (int k = 0; k < KW; ++k, w += d.w_step) wv[k] = Vec::Load(w);
    const Element* column = kEdge ? nullptr : x + at;
    UNROLL for (int j = 0; j < (TW - 1) * S + KW; ++j) {
      const T v = LoadC(kEdge ? edge->base[j] + (at & edge->mask[j]) : column, n, kWhole);
      if (!kEdge) column += d.pixel_step;
      UNROLL for (int k = 0; k < KW; ++k) {
        if (j >= k && (j - k) % S == 0 && (j - k) / S < TW) acc[(j - k) / S] = Vec::Fma(v, wv[k], acc[(j - k) / S]);
      }
    }
  }
  Finish<TW, kWhole>(d, ow, c, n, acc);
}

template <int KW, int S, int TW, typename Element>
void Tile(const DepthwiseLineOf<Element>& d, int64_t ow) {
  constexpr int kLanes = Vec::kLanes;
  constexpr int kColumns = (TW - 1) * S + KW;
  const int64_t first = ow * S - d.pad;
  const Element* x = d.x + first * d.pixel_step;
  int64_t c = 0;
  if (first >= 0 && first + kColumns <= d.in_w) {
    for (; c + kLanes <= d.channels; c += kLanes) TileVector<KW, S, TW, true, false, Element>(d, x, nullptr, ow, c, kLanes);
    if (c == d.channels) return;
  }
  const EdgeColumns<Element, kColumns> edge(d, x, first);
  for (; c + kLanes <= d.channels; c += kLanes) TileVector<KW, S, TW, true, true, Element>(d, x, &edge, ow, c, kLanes);
  if (c < d.channels) TileVector<KW, S, TW, false, true, Element>(d, x, &edge, ow, c, d.channels - c);
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
    whole ? Finish<1, true>(d, ow, c, n, &acc) : Finish<1, false>(d, ow, c, n, &acc);
  }
}

template <int KW, int S, typename Element>
void Tiles(const DepthwiseLineOf<Element>& d) {
  using Function = void (*)(const DepthwiseLineOf<Element>&, int64_t);
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
