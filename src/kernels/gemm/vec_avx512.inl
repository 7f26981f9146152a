// The vector type of the AVX-512 files. Included inside an anonymous namespace.
struct Vec {
  using T = __m512;
  static constexpr int kLanes = 16;
  static T Zero() { return _mm512_setzero_ps(); }
  static T Set(float x) { return _mm512_set1_ps(x); }
  static T Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, T v) { _mm512_storeu_ps(p, v); }
  static __mmask16 Mask(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static T LoadN(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(Mask(n), p); }
  static void StoreN(float* p, T v, int64_t n) { _mm512_mask_storeu_ps(p, Mask(n), v); }
  // v[i] lane j becomes v[j] lane i.
  static void Transpose(T* v) {
    T t[16];
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
      t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
    const auto low = [](T a, T b) { return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); };
    const auto high = [](T a, T b) { return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); };
    for (int i = 0; i < 16; i += 4) {
      v[i] = low(t[i], t[i + 2]);
      v[i + 1] = high(t[i], t[i + 2]);
      v[i + 2] = low(t[i + 1], t[i + 3]);
      v[i + 3] = high(t[i + 1], t[i + 3]);
    }
    // Quarter q of v[4 g + j] now holds rows 4 g to 4 g + 3 of column 4 q + j.
    for (int j = 0; j < 4; ++j) {
      const T a = _mm512_shuffle_f32x4(v[j], v[4 + j], 0x88);
      const T b = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0x88);
      const T c = _mm512_shuffle_f32x4(v[j], v[4 + j], 0xdd);
      const T d = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0xdd);
      v[j] = _mm512_shuffle_f32x4(a, b, 0x88);
      v[4 + j] = _mm512_shuffle_f32x4(c, d, 0x88);
      v[8 + j] = _mm512_shuffle_f32x4(a, b, 0xdd);
      v[12 + j] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
  }
  static T Fma(T a, T b, T c) { return _mm512_fmadd_ps(a, b, c); }
  static T Add(T a, T b) { return _mm512_add_ps(a, b); }
  static T Sub(T a, T b) { return _mm512_sub_ps(a, b); }
  static T Mul(T a, T b) { return _mm512_mul_ps(a, b); }
  static T Div(T a, T b) { return _mm512_div_ps(a, b); }
  // NaN in b comes through.
  static T Max(T a, T b) { return _mm512_max_ps(a, b); }
  static T Min(T a, T b) { return _mm512_min_ps(a, b); }
  static T Round(T v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // 2^v for integral v in [-126, 127].
  static T Pow2(T v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(127)), 23));
  }
};
