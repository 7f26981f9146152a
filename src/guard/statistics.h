// Medians and their noise: how races between two models or kernels are judged.
#ifndef TENON_GUARD_STATISTICS_H_
#define TENON_GUARD_STATISTICS_H_

#include <vector>

namespace tenon::guard {

/// The upper median; 0 for none.
double Median(std::vector<double> values);

/// Twice the standard error of the median of `ratios`, relative to it, from their median absolute deviation; 1 when the median is
/// not above 0.
double MedianNoise(std::vector<double> ratios);

}  // namespace tenon::guard

#endif  // TENON_GUARD_STATISTICS_H_
