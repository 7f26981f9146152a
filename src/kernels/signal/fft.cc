#include "kernels/signal/fft.h"

#include <cmath>
#include <numbers>

namespace tenon::kernels::signal {
namespace {

#include "kernels/signal/fft_passes-inl.h"

// exp(-2 pi i k / n), the argument reduced exactly first.
template <typename T>
void Unit(int64_t k, int64_t n, T* re, T* im) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  *re = static_cast<T>(std::cos(angle));
  *im = static_cast<T>(std::sin(angle));
}

// Radices of n in order; what is left when a prime beyond kMaxRadix divides n goes to *rest (else 1).
std::vector<int> Factor(int64_t n, int64_t* rest) {
  std::vector<int> radices;
  const auto take = [&](int p) {
    while (n % p == 0) {
      radices.push_back(p);
      n /= p;
    }
  };
  take(4);
  for (int p = 2; p <= kMaxRadix; ++p) take(p);
  *rest = n;
  return radices;
}

}  // namespace

template <typename T>
FftPlan<T>::FftPlan(int64_t length) : n(length) {
  int64_t rest = 1;
  const std::vector<int> radices = Factor(n, &rest);
  if (rest == 1) {
    int64_t size = n;
    int64_t stride = 1;
    for (int radix : radices) {
      const int64_t m = size / radix;
      std::vector<T> c(static_cast<size_t>(m * (radix - 1))), s(c.size());
      std::vector<T> rc(static_cast<size_t>(radix)), rs(rc.size());
      size_t at = 0;
      for (int64_t j = 0; j < m; ++j) {
        for (int r = 1; r < radix; ++r, ++at) Unit(j * r, size, &c[at], &s[at]);
      }
      for (int r = 0; r < radix; ++r) Unit(r, radix, &rc[static_cast<size_t>(r)], &rs[static_cast<size_t>(r)]);
      passes.push_back({radix, m, stride, c.data(), s.data(), rc.data(), rs.data()});
      for (auto* table : {&c, &s, &rc, &rs}) tables.push_back(std::move(*table));
      size = m;
      stride *= radix;
    }
    return;
  }
  int64_t padded = 1;
  while (padded < 2 * n - 1) padded *= 2;
  inner = std::make_unique<FftPlan<T>>(padded);
  chirp_re.resize(static_cast<size_t>(n));
  chirp_im.resize(static_cast<size_t>(n));
  const auto size = static_cast<size_t>(padded);
  FftPlan<double> exact(padded);
  std::vector<double> re(size), im(size), re2(size), im2(size);
  for (int64_t k = 0; k < n; ++k) {
    const auto i = static_cast<size_t>(k);
    double c = 0, s = 0;
    Unit(k * k % (2 * n), 2 * n, &c, &s);
    chirp_re[i] = static_cast<T>(c);
    chirp_im[i] = static_cast<T>(s);
    re[i] = re[(size - i) % size] = c;
    im[i] = im[(size - i) % size] = -s;
  }
  double *out_re = nullptr, *out_im = nullptr;
  FftRun<double>(exact, FftPassesF64, 1, {re.data(), im.data(), re2.data(), im2.data()}, &out_re, &out_im);
  for (size_t i = 0; i < size; ++i) {
    filter_re.push_back(static_cast<T>(out_re[i] / static_cast<double>(padded)));
    filter_im.push_back(static_cast<T>(out_im[i] / static_cast<double>(padded)));
  }
}

template <typename T>
void FftRun(const FftPlan<T>& plan, FftPasses<T> passes, int64_t columns, const FftBuffers<T>& b, T** out_re, T** out_im) {
  if (plan.inner == nullptr) {
    const bool swapped = passes(plan.passes.data(), static_cast<int>(plan.passes.size()), columns, b.re, b.im, b.re2, b.im2);
    *out_re = swapped ? b.re2 : b.re;
    *out_im = swapped ? b.im2 : b.im;
    return;
  }
  // Multiplies column elements of row k by (c, s); conjugates after.
  const auto scale = [columns](T* re, T* im, int64_t k, T c, T s, bool conjugate) {
    for (int64_t q = k * columns; q < (k + 1) * columns; ++q) {
      const T r = re[q] * c - im[q] * s;
      const T i = re[q] * s + im[q] * c;
      re[q] = r;
      im[q] = conjugate ? -i : i;
    }
  };
  const auto at = [](const std::vector<T>& v, int64_t i) { return v[static_cast<size_t>(i)]; };
  for (int64_t k = 0; k < plan.n; ++k) scale(b.re, b.im, k, at(plan.chirp_re, k), at(plan.chirp_im, k), false);
  for (int64_t q = plan.n * columns; q < plan.inner->n * columns; ++q) b.re[q] = b.im[q] = 0;
  FftRun(*plan.inner, passes, columns, b, out_re, out_im);
  // The inverse transform of z is the conjugate of the transform of its conjugate; 1 / length is in the filter.
  for (int64_t k = 0; k < plan.inner->n; ++k) scale(*out_re, *out_im, k, at(plan.filter_re, k), at(plan.filter_im, k), true);
  const bool second = *out_re == b.re2;
  const FftBuffers<T> back = second ? FftBuffers<T>{b.re2, b.im2, b.re, b.im} : b;
  FftRun(*plan.inner, passes, columns, back, out_re, out_im);
  for (int64_t k = 0; k < plan.n; ++k) {
    for (int64_t q = k * columns; q < (k + 1) * columns; ++q) (*out_im)[q] = -(*out_im)[q];
    scale(*out_re, *out_im, k, at(plan.chirp_re, k), at(plan.chirp_im, k), false);
  }
}

bool FftPassesF32(const FftPass<float>* passes, int count, int64_t columns, float* re, float* im, float* re2, float* im2) {
  return RunPasses<float>(passes, count, columns, re, im, re2, im2);
}

bool FftPassesF64(const FftPass<double>* passes, int count, int64_t columns, double* re, double* im, double* re2, double* im2) {
  return RunPasses<double>(passes, count, columns, re, im, re2, im2);
}

template struct FftPlan<float>;
template struct FftPlan<double>;
template void FftRun<float>(const FftPlan<float>&, FftPasses<float>, int64_t, const FftBuffers<float>&, float**, float**);
template void FftRun<double>(const FftPlan<double>&, FftPasses<double>, int64_t, const FftBuffers<double>&, double**, double**);

}  // namespace tenon::kernels::signal
