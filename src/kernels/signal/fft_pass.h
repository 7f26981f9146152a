// One pass of a Fourier transform, light enough for the per-ISA files.
#ifndef TENON_KERNELS_SIGNAL_FFT_PASS_H_
#define TENON_KERNELS_SIGNAL_FFT_PASS_H_

#include <cstdint>

namespace tenon::kernels::signal {

/// Largest radix done directly.
inline constexpr int kMaxRadix = 31;

/// One pass: n = radix * m at stride s (times columns). Twiddles w^(j*r), j < m, 0 < r < radix, w = exp(-2 pi i / n).
template <typename T>
struct FftPass {
  int radix;
  int64_t m, s;
  const T *cos, *sin;            ///< [j][r - 1]
  const T *root_cos, *root_sin;  ///< radix-th roots of unity
};

/// Passes of one instruction set: transforms re/im in place or into re2/im2; true when the result is in re2/im2.
template <typename T>
using FftPasses = bool (*)(const FftPass<T>* passes, int count, int64_t columns, T* re, T* im, T* re2, T* im2);

bool FftPassesF32(const FftPass<float>* passes, int count, int64_t columns, float* re, float* im, float* re2, float* im2);
bool FftPassesF32Avx2(const FftPass<float>* passes, int count, int64_t columns, float* re, float* im, float* re2, float* im2);
bool FftPassesF32Avx512(const FftPass<float>* passes, int count, int64_t columns, float* re, float* im, float* re2, float* im2);
bool FftPassesF64(const FftPass<double>* passes, int count, int64_t columns, double* re, double* im, double* re2, double* im2);

}  // namespace tenon::kernels::signal

#endif  // TENON_KERNELS_SIGNAL_FFT_PASS_H_
