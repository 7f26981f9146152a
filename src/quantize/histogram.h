// How often a tensor takes which values, and where to clip it so that 256 steps lose least: the three searches of calibration.
//
// Ranges clip to [low, high] with low <= 0 <= high, as integer kernels have it: step (high - low) / 255, zero exactly on it.
#ifndef TENON_QUANTIZE_HISTOGRAM_H_
#define TENON_QUANTIZE_HISTOGRAM_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace tenon::quantize {

using Range = std::pair<float, float>;

class Histogram {
 public:
  static constexpr int kBins = 2048;   ///< on each side of zero

  /// Of values in [low, high], both finite; bins are as wide on either side, with an edge at zero.
  Histogram(float low, float high);

  /// What lies outside counts in the outermost bin; values that are not finite do not count.
  void Add(const float* values, int64_t count);

  /// Where the expected squared error of rounding and clipping is least (IFMR of AMCT): both ends are searched in steps of 1 % of
  /// their extremes.
  Range LeastSquares() const;
  /// Where the divergence of Kullback and Leibler between the clipped distribution and the one in steps is least, of magnitudes
  /// (TensorRT). Zeros lie on a step and do not count.
  Range LeastDivergence() const;
  /// Leaves out (100 - percent) / 2 percent of the values at either end, to the width of a bin. `percent` in (0, 100].
  Range Percentile(double percent) const;

 private:
  double Error(float low, float high) const;
  double Divergence(const std::vector<double>& magnitudes, int bins, int steps) const;
  Range Widest() const { return {low_, high_}; }

  float low_;
  float high_;
  double width_;  // of a bin; 0: all values are zero
  uint64_t zeros_ = 0;
  std::vector<uint64_t> counts_;  // bin i is [i - kBins, i - kBins + 1) * width_
};

}  // namespace tenon::quantize

#endif  // TENON_QUANTIZE_HISTOGRAM_H_
