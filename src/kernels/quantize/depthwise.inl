// Strips of a byte depthwise convolution over vectors VI of kLanes int32: LoadBytes<signed>, LoadW, Store, Zero, MultiplyAdd (of the lower
// 16 bits). Included inside an anonymous namespace.

template <bool kSigned, int kPixels>
inline void Pixels(const DepthwiseStrip& s, const uint8_t* x, const int32_t* w, int32_t* sums) {
  VI acc[kPixels];
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) acc[p] = Zero();
  for (int64_t t = 0; t < s.taps; ++t, w += s.w_step) {
    const VI weight = LoadW(w);
    const uint8_t* from = x + s.offsets[t];
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) acc[p] = MultiplyAdd(acc[p], LoadBytes<kSigned>(from + p * s.pixel_step), weight);
  }
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) Store(sums + p * s.sums_step, acc[p]);
}

template <bool kSigned>
void Strip(const DepthwiseStrip& s) {
  constexpr int kMost = 8;
  for (int64_t c = 0; c < s.channels; c += kLanes) {
    int64_t p = 0;
    for (; p + kMost <= s.pixels; p += kMost) {
      Pixels<kSigned, kMost>(s, s.x + p * s.pixel_step + c, s.w + c, s.sums + p * s.sums_step + c);
    }
    for (; p < s.pixels; ++p) Pixels<kSigned, 1>(s, s.x + p * s.pixel_step + c, s.w + c, s.sums + p * s.sums_step + c);
  }
}
