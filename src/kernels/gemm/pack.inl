// Packing of one panel over a vector type Vec. Included inside an anonymous namespace after micro.inl.

// Rows of B are contiguous: a copy.
void PackRows(const float* from, int64_t k, int64_t n, int64_t k_stride, float alpha, float* to, int64_t width) {
  constexpr int kLanes = Vec::kLanes;
  const T scale = Vec::Set(alpha);
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < k; ++i, from += k_stride, to += width) {
    int64_t c = 0;
    for (; c < whole; c += kLanes) Vec::Store(to + c, Vec::Mul(scale, Vec::Load(from + c)));
    if (c < n) {
      Vec::Store(to + c, Vec::Mul(scale, Vec::LoadN(from + c, n - c)));
      c += kLanes;
    }
    for (; c < width; c += kLanes) Vec::Store(to + c, Vec::Zero());
  }
}

// Columns of B are contiguous: squares are transposed in registers. Element o * taps + t of a column goes to row
// t * (k / taps) + o, which orders the weights of a convolution by tap.
void PackColumns(const float* from, int64_t k, int64_t n, int64_t n_stride, float alpha, int64_t taps, float* to, int64_t width) {
  constexpr int64_t kLanes = Vec::kLanes;
  constexpr int64_t kAhead = 128;
  const T scale = Vec::Set(alpha);
  const int64_t outer = k / taps;
  for (int64_t k0 = 0; k0 < k; k0 += kLanes) {
    const int64_t rows = k - k0 < kLanes ? k - k0 : kLanes;
    float* row[kLanes];
    for (int64_t i = 0; i < rows; ++i) row[i] = to + ((k0 + i) % taps * outer + (k0 + i) / taps) * width;
    for (int64_t c = 0; c < width; c += kLanes) {
      T square[kLanes];
      for (int64_t j = 0; j < kLanes; ++j) {
        const float* p = from + (c + j) * n_stride + k0;
        __builtin_prefetch(p + kAhead);   // more streams than the hardware follows
        square[j] = c + j >= n ? Vec::Zero() : rows == kLanes ? Vec::Load(p) : Vec::LoadN(p, rows);
      }
      Vec::Transpose(square);
      for (int64_t i = 0; i < rows; ++i) Vec::Store(row[i] + c, Vec::Mul(scale, square[i]));
    }
  }
}

// Any strides. Columns of B are walked in blocks of rows short enough that the lines touched stay in the L1 cache.
void PackStrided(const float* from, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, float alpha, float* to,
                 int64_t width) {
  constexpr int64_t kBlock = 16;
  for (int64_t k0 = 0; k0 < k; k0 += kBlock) {
    const int64_t k1 = k0 + kBlock < k ? k0 + kBlock : k;
    for (int64_t c = 0; c < n; ++c) {
      const float* p = from + c * n_stride;
      for (int64_t i = k0; i < k1; ++i) to[i * width + c] = alpha * p[i * k_stride];
    }
    for (int64_t i = k0; i < k1; ++i) {
      for (int64_t c = n; c < width; ++c) to[i * width + c] = 0;
    }
  }
}

void PackPanel(const float* from, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, float alpha, float* to,
               int64_t width) {
  if (n_stride == 1) {
    PackRows(from, k, n, k_stride, alpha, to, width);
  } else if (k_stride == 1) {
    PackColumns(from, k, n, n_stride, alpha, 1, to, width);
  } else {
    PackStrided(from, k, n, k_stride, n_stride, alpha, to, width);
  }
}
