#include "guard/statistics.h"

#include <algorithm>
#include <cmath>

namespace tenon::guard {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MedianNoise(std::vector<double> ratios) {
  const double middle = Median(ratios);
  if (!(middle > 0)) return 1;
  const auto n = static_cast<double>(ratios.size());
  for (double& r : ratios) r = std::abs(r - middle);
  // The standard error of a median of n, were they normal, is 1.25 sigma / sqrt(n), and sigma 1.48 median deviations.
  return 2 * 1.25 * 1.48 * Median(std::move(ratios)) / std::sqrt(n) / middle;
}

}  // namespace tenon::guard
