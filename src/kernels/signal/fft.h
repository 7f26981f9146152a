// Fast Fourier transforms of any length on many columns at once: data lie as [n][columns], real and imaginary parts apart.
// Stockham's self-sorting passes of radix 4, 2, 3, 5 and small primes; Bluestein's convolution when a large prime divides n.
#ifndef TENON_KERNELS_SIGNAL_FFT_H_
#define TENON_KERNELS_SIGNAL_FFT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/signal/fft_pass.h"

namespace tenon::kernels::signal {

template <typename T>
struct FftPlan {
  int64_t n = 0;
  std::vector<FftPass<T>> passes;
  std::vector<std::vector<T>> tables;  ///< what the passes point into
  // Bluestein: chirp c[k] = exp(-pi i k^2 / n), and the transform of its conjugate, divided by the inner length.
  std::unique_ptr<FftPlan<T>> inner;
  std::vector<T> chirp_re, chirp_im, filter_re, filter_im;

  explicit FftPlan(int64_t length);
  /// Rows that each array of FftBuffers needs.
  int64_t WorkLength() const { return inner != nullptr ? inner->n : n; }
};

/// Arrays of WorkLength() * columns.
template <typename T>
struct FftBuffers {
  T *re, *im;    ///< input, [n][columns]; destroyed
  T *re2, *im2;  ///< of the same size
};

/// Forward transform of all columns. The result's first n rows are in *out_re, *out_im (one of the buffers).
template <typename T>
void FftRun(const FftPlan<T>& plan, FftPasses<T> passes, int64_t columns, const FftBuffers<T>& b, T** out_re, T** out_im);

}  // namespace tenon::kernels::signal

#endif  // TENON_KERNELS_SIGNAL_FFT_H_
