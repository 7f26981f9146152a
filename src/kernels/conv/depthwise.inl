// Depthwise lines over a vector type Vec (gemm/vec_*.inl). Included inside an anonymous namespace.
#define UNROLL _Pragma("GCC unroll 32")

using T = Vec::T;

inline T LoadC(const float* p, int64_t n, bool whole) { return whole ? Vec::Load(p) : Vec::LoadN(p, n); }

inline void Finish(const DepthwiseLine& d, int64_t ow, int64_t c, int64_t n, bool whole, T acc) {
  const int64_t at = ow * d.channels + c;
  if (d.residual != nullptr) acc = Vec::Add(acc, LoadC(d.residual + at, n, whole));
  acc = Vec::Min(Vec::Set(d.hi), Vec::Max(Vec::Set(d.lo), acc));
  if (whole) {
    Vec::Store(d.y + at, acc);
  } else {
    Vec::StoreN(d.y + at, acc, n);
  }
}

// TW neighbouring outputs, one vector of channels, a window KW wide whose columns all exist. Each input column is loaded once
// and used by every output whose window holds it.
template <int KW, int S, int TW, bool kWhole>
inline void InnerVector(const DepthwiseLine& d, const float* x, int64_t ow, int64_t c, int64_t n) {
  const T bias = d.bias != nullptr ? LoadC(d.bias + c, n, kWhole) : Vec::Zero();
  T acc[TW];
  UNROLL for (int i = 0; i < TW; ++i) acc[i] = bias;
  const float* w = d.w + c;
  x += c;
  for (int64_t r = 0; r < d.rows; ++r, x += d.row_step) {
    T wv[KW];
    UNROLL for (int k = 0; k < KW; ++k, w += d.w_step) wv[k] = Vec::Load(w);
    const float* column = x;
    UNROLL for (int j = 0; j < (TW - 1) * S + KW; ++j, column += d.channels) {
      const T v = LoadC(column, n, kWhole);
      UNROLL for (int k = 0; k < KW; ++k) {
        if (j >= k && (j - k) % S == 0 && (j - k) / S < TW) acc[(j - k) / S] = Vec::Fma(v, wv[k], acc[(j - k) / S]);
      }
    }
  }
  UNROLL for (int i = 0; i < TW; ++i) Finish(d, ow + i, c, n, kWhole, acc[i]);
}

template <int KW, int S, int TW>
void Inner(const DepthwiseLine& d, int64_t ow) {
  constexpr int kLanes = Vec::kLanes;
  const float* x = d.x + (ow * S - d.pad) * d.channels;
  int64_t c = 0;
  for (; c + kLanes <= d.channels; c += kLanes) InnerVector<KW, S, TW, true>(d, x, ow, c, kLanes);
  if (c < d.channels) InnerVector<KW, S, TW, false>(d, x, ow, c, d.channels - c);
}

// One output with kernel columns [k0, k1).
void Any(const DepthwiseLine& d, int64_t ow, int64_t k0, int64_t k1) {
  constexpr int kLanes = Vec::kLanes;
  const float* x = d.x + (ow * d.stride - d.pad) * d.channels;
  for (int64_t c = 0; c < d.channels; c += kLanes) {
    const int64_t n = d.channels - c;
    const bool whole = n >= kLanes;
    T acc = d.bias != nullptr ? LoadC(d.bias + c, n, whole) : Vec::Zero();
    for (int64_t r = 0; r < d.rows; ++r) {
      const float* row = x + r * d.row_step + c;
      const float* w = d.w + r * d.kernel_w * d.w_step + c;
      for (int64_t k = k0; k < k1; ++k) {
        acc = Vec::Fma(LoadC(row + k * d.dilation * d.channels, n, whole), Vec::Load(w + k * d.w_step), acc);
      }
    }
    Finish(d, ow, c, n, whole, acc);
  }
}

void Border(const DepthwiseLine& d, int64_t ow) {
  const int64_t first = ow * d.stride - d.pad;
  int64_t k0 = 0;
  int64_t k1 = d.kernel_w;
  while (k0 < k1 && first + k0 * d.dilation < 0) ++k0;
  while (k1 > k0 && first + (k1 - 1) * d.dilation >= d.in_w) --k1;
  Any(d, ow, k0, k1);
}

template <int KW, int S>
void InnerRange(const DepthwiseLine& d, int64_t begin, int64_t end) {
  using Function = void (*)(const DepthwiseLine&, int64_t);
  static constexpr Function kBySize[] = {nullptr,        Inner<KW, S, 1>, Inner<KW, S, 2>, Inner<KW, S, 3>, Inner<KW, S, 4>,
                                         Inner<KW, S, 5>, Inner<KW, S, 6>, Inner<KW, S, 7>, Inner<KW, S, 8>};
  for (int64_t left = end - begin; left > 0; left = end - begin) {
    // Equal sizes rather than a short last one.
    const int64_t count = (left + 7) / 8;
    const int64_t size = (left + count - 1) / count;
    kBySize[size](d, begin);
    begin += size;
  }
}

void Line(const DepthwiseLine& d) {
  // Outputs [begin, end) whose whole window lies inside the line.
  int64_t begin = (d.pad + d.stride - 1) / d.stride;
  const int64_t room = d.in_w - 1 + d.pad - (d.kernel_w - 1) * d.dilation;
  int64_t end = room < 0 ? 0 : room / d.stride + 1;
  if (end > d.out_w) end = d.out_w;
  if (begin > end) begin = end;
  for (int64_t ow = 0; ow < begin; ++ow) Border(d, ow);
  if (d.dilation == 1 && d.kernel_w == 3 && d.stride == 1) {
    InnerRange<3, 1>(d, begin, end);
  } else if (d.dilation == 1 && d.kernel_w == 3 && d.stride == 2) {
    InnerRange<3, 2>(d, begin, end);
  } else if (d.dilation == 1 && d.kernel_w == 5 && d.stride == 1) {
    InnerRange<5, 1>(d, begin, end);
  } else if (d.dilation == 1 && d.kernel_w == 5 && d.stride == 2) {
    InnerRange<5, 2>(d, begin, end);
  } else {
    for (int64_t ow = begin; ow < end; ++ow) Any(d, ow, 0, d.kernel_w);
  }
  for (int64_t ow = end; ow < d.out_w; ++ow) Border(d, ow);
}
