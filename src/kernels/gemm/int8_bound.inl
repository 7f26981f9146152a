// For AVX-512. Included inside an anonymous namespace, with Int8Finish in scope.

// An activation's bound as a byte of y.
inline __m512i Bound(const Int8Finish& f, bool is_signed, float v) {
  const float least = is_signed ? -128 : 0;
  v = v + static_cast<float>(f.y_zero);   // rounded below: the zero point is whole
  v = v < least ? least : v > least + 255 ? least + 255 : v;
  return _mm512_set1_epi8(static_cast<char>(_mm_cvtss_si32(_mm_set_ss(v - static_cast<float>(f.y_zero))) + f.y_zero));
}
