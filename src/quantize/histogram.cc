#include "quantize/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tenon::quantize {
namespace {

constexpr int kSearchSteps = 100;   // candidates of an end, in shares of the extreme
constexpr int kDivergenceStride = 8;  // bins between candidates

}  // namespace

Histogram::Histogram(float low, float high)
    : low_(std::min(low, 0.0F)),
      high_(std::max(high, 0.0F)),
      width_(std::max(-static_cast<double>(low_), static_cast<double>(high_)) / kBins),
      counts_(size_t{2} * kBins) {}

void Histogram::Add(const float* values, int64_t count) {
  if (width_ <= 0) return;
  const double per_bin = 1 / width_;
  for (int64_t i = 0; i < count; ++i) {
    const float v = values[i];
    if (v == 0) {
      ++zeros_;
    } else if (std::isfinite(v)) {
      const double at = std::floor(static_cast<double>(v) * per_bin) + kBins;
      ++counts_[static_cast<size_t>(std::clamp(at, 0.0, 2.0 * kBins - 1))];
    }
  }
}

double Histogram::Error(float low, float high) const {
  const double step = (static_cast<double>(high) - low) / 255;
  if (step <= 0) return std::numeric_limits<double>::infinity();
  const double zero = std::nearbyint(-low / step);
  double sum = 0;
  for (int i = 0; i < 2 * kBins; ++i) {
    const uint64_t count = counts_[static_cast<size_t>(i)];
    if (count == 0) continue;
    const double v = (i - kBins + 0.5) * width_;
    const double back = (std::clamp(std::nearbyint(v / step) + zero, 0.0, 255.0) - zero) * step;
    sum += static_cast<double>(count) * (v - back) * (v - back);
  }
  return sum;
}

Range Histogram::LeastSquares() const {
  if (width_ <= 0) return Widest();
  const auto share = [](float end, int k) { return end * static_cast<float>(k) / kSearchSteps; };
  Range best = Widest();
  double least = Error(low_, high_);
  const auto consider = [&](float low, float high) {
    const double error = Error(low, high);
    if (error < least) {
      least = error;
      best = {low, high};
    }
  };
  for (int k = kSearchSteps - 1; k > 0; --k) consider(share(low_, k), share(high_, k));
  if (low_ == 0 || high_ == 0) return best;
  const float low = best.first;
  for (int k = kSearchSteps; k > 0; --k) consider(low, share(high_, k));
  const float high = best.second;
  for (int k = kSearchSteps; k > 0; --k) consider(share(low_, k), high);
  return best;
}

// P: the first `bins` of `magnitudes`, with all beyond in the last; Q: the same without what is beyond, averaged over each of
// `steps` groups where P is not zero.
double Histogram::Divergence(const std::vector<double>& magnitudes, int bins, int steps) const {
  const auto begin = magnitudes.begin();
  const double beyond = std::accumulate(begin + bins, magnitudes.end(), 0.0);
  const double inside = std::accumulate(begin, begin + bins, 0.0);
  if (inside <= 0) return std::numeric_limits<double>::infinity();
  double divergence = 0;
  for (int g = 0; g < steps; ++g) {
    const int from = static_cast<int>(int64_t{bins} * g / steps);
    const int to = static_cast<int>(int64_t{bins} * (g + 1) / steps);
    double mass = 0;
    int filled = 0;
    for (int i = from; i < to; ++i) {
      const bool last = i == bins - 1;
      mass += magnitudes[static_cast<size_t>(i)];
      filled += magnitudes[static_cast<size_t>(i)] > 0 || (last && beyond > 0) ? 1 : 0;
    }
    for (int i = from; i < to; ++i) {
      const double p = (magnitudes[static_cast<size_t>(i)] + (i == bins - 1 ? beyond : 0)) / (inside + beyond);
      if (p <= 0) continue;
      constexpr double kLittle = 1e-9;   // where only what was clipped is left
      divergence += p * std::log(p / std::max(mass / filled / inside, kLittle));
    }
  }
  return divergence;
}

Range Histogram::LeastDivergence() const {
  if (width_ <= 0) return Widest();
  std::vector<double> magnitudes(kBins);
  for (size_t i = 0; i < kBins; ++i) magnitudes[i] = static_cast<double>(counts_[kBins + i] + counts_[kBins - 1 - i]);
  const int steps = low_ < 0 && high_ > 0 ? 128 : 256;
  int best = kBins;
  double least = Divergence(magnitudes, kBins, steps);
  for (int bins = kBins - kDivergenceStride; bins >= steps; bins -= kDivergenceStride) {
    const double divergence = Divergence(magnitudes, bins, steps);
    if (divergence < least) {
      least = divergence;
      best = bins;
    }
  }
  const auto end = static_cast<float>(best * width_);
  return {std::max(low_, -end), std::min(high_, end)};
}

Range Histogram::Percentile(double percent) const {
  const uint64_t total = std::accumulate(counts_.begin(), counts_.end(), zeros_);
  if (width_ <= 0 || total == 0) return Widest();
  const double cut = static_cast<double>(total) * (100 - percent) / 200;
  // From one end to zero: the first bin that takes the count beyond the cut stays.
  const auto end = [&](bool upper) {
    double seen = 0;
    for (int k = kBins - 1; k >= 0; --k) {
      seen += static_cast<double>(counts_[static_cast<size_t>(upper ? kBins + k : kBins - 1 - k)]);
      if (seen > cut) return static_cast<float>((k + 1) * width_);
    }
    return 0.0F;
  };
  const Range range = {std::max(low_, -end(false)), std::min(high_, end(true))};
  return range.first < range.second ? range : Widest();
}

}  // namespace tenon::quantize
