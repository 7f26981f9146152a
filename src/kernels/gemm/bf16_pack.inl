// Packing a panel of B for any machine. Included inside an anonymous namespace.

inline void PackPanelPlain(const uint16_t* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, uint16_t* to) {
  const int64_t padded = (k + kBf16Depth - 1) / kBf16Depth * kBf16Depth;
  for (int64_t k0 = 0; k0 < padded; k0 += kBf16Depth, to += kBf16Depth * kBf16Panel) {
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t pair = 0; pair < 16; ++pair) {
        for (int64_t c = 0; c < 16; ++c) {
          for (int64_t j = 0; j < 2; ++j) {
            const int64_t kk = k0 + 2 * pair + j;
            const int64_t nn = half * 16 + c;
            to[half * 512 + pair * 32 + c * 2 + j] = kk < k && nn < n ? b[kk * k_stride + nn * n_stride] : uint16_t{0};
          }
        }
      }
    }
  }
}
