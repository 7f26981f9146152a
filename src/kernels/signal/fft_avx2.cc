// Fourier passes in f32 for AVX2.
#include "kernels/signal/fft_pass.h"

namespace tenon::kernels::signal {
namespace {

#include "kernels/signal/fft_passes-inl.h"

}  // namespace

bool FftPassesF32Avx2(const FftPass<float>* passes, int count, int64_t columns, float* re, float* im, float* re2, float* im2) {
  return RunPasses<float>(passes, count, columns, re, im, re2, im2);
}

}  // namespace tenon::kernels::signal
