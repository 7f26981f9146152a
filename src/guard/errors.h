// How far one tensor is from another, in the columns of msaccucmp (CANN's accuracy comparison tool), so that people's thresholds
// and spreadsheets carry over. With x the tensor judged, y the ground truth, n elements and eps = 2^-23:
//
//   CosineSimilarity            sum(x y) / (|x| |y|); 1 for scalars and when both are 0
//   MaxAbsoluteError            max |x - y|
//   AccumulatedRelativeError    sum |x/y - 1| over elements with |y| > eps
//   RelativeEuclideanDistance   sqrt(sum (x - y)^2 / sum y^2); 0 when |y| <= eps
//   KullbackLeiblerDivergence   sum(p log(p/q)), p and q: x and y scaled to [eps, 1] by their own range, then to sum 1
//   StandardDeviation           (mean x;std x),(mean y;std y), of the population
//   MeanAbsoluteError           sum |x - y| / n
//   RootMeanSquareError         sqrt(sum (x - y)^2 / n)
//   MaxRelativeError            max |x/y - 1| over elements with |y| > eps
//   MeanRelativeError           AccumulatedRelativeError / n
//
// Source: operator_cmp/compare/algorithm_manager/builtin_algorithm of CANN 8.1, and the user guide of its accuracy comparison.
// Elements that are not finite on either side are left out and counted.
#ifndef TENON_GUARD_ERRORS_H_
#define TENON_GUARD_ERRORS_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "tenon/session.h"
#include "tensor/tensor.h"

namespace tenon::guard {

struct Errors {
  int64_t elements = 0;
  double cosine = 1;
  double max_abs = 0;
  double accumulated_relative = 0;
  double relative_euclidean = 0;
  double kl_divergence = 0;
  double mean = 0;
  double deviation = 0;
  double truth_mean = 0;
  double truth_deviation = 0;
  double mean_abs = 0;
  double rmse = 0;
  double max_relative = 0;
  double mean_relative = 0;
  double max_truth = 0;             ///< largest |y|
  int64_t nan = 0;                  ///< of x, where y is none
  int64_t infinite = 0;             ///< of x, where y is not the same infinity

  /// The one number that bounds are set for: the larger of RelativeEuclideanDistance and MaxAbsoluteError / max |y|, so that
  /// neither many small errors nor a single wrong element are overlooked. Infinite where x is not finite and y is, or y is 0
  /// and x is not.
  double Score() const;
  bool overflow() const { return nan > 0 || infinite > 0; }
  std::string StandardDeviationText() const;
};

/// Texts count as 1 where they are the truth's and 0 where not, against a truth of 1. kUnsupported: elements of a type that is
/// not compared; kBadInput: other shapes.
Result<Errors> CompareValues(const View& value, const View& truth);

/// The same of values of a run; of sequences the worst element. kBadInput also: sequences of other lengths.
Result<Errors> CompareValues(const HostTensor& value, const HostTensor& truth);

/// Worse of the two in each column (of several samples).
Errors Worse(const Errors& a, const Errors& b);

}  // namespace tenon::guard

#endif  // TENON_GUARD_ERRORS_H_
