// Calibration: between which ends each tensor of a model is rounded to integers, from runs on samples. The same samples in the
// same order give the same table, and a table can be written, read back and reviewed.
#ifndef TENON_QUANTIZE_CALIBRATION_H_
#define TENON_QUANTIZE_CALIBRATION_H_

#include <functional>
#include <string>

#include "artifact/program.h"
#include "guard/ranges.h"

namespace tenon::quantize {

enum class Method { kMinMax, kMse, kEntropy, kPercentile };

/// minmax, mse, entropy, percentile, in any case, and the names of AMCT, ORT and NNCF for them (ifmr, kl, quantile, min-max).
Result<Method> ParseMethod(const std::string& text);
const char* MethodName(Method method);

struct CalibrationOptions {
  Method method = Method::kMinMax;
  double percentile = 99.999;   ///< in (0, 100]; of kPercentile
  RunOptions run;
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
};

struct CalibrationTable {
  std::string method;      ///< MethodName, "percentile 99.9", or what the file said
  guard::Ranges ranges;    ///< by tensor, all finite

  /// SHA-256 of names and ranges: two tables of one digest quantise alike.
  std::string Digest() const;
  /// {"method", "digest", "tensors": {name: [low, high]}}
  std::string ToJson() const;
  /// kBadInput: not in this form, or a range that is none. The digest in the file is not asked: tables may be edited.
  static Result<CalibrationTable> FromJson(const std::string& text);
};

/// `session` runs the f32 `program` once on each sample for the extremes, and, for all methods but kMinMax, once more for
/// histograms. Tensors with values that are not finite get no range. kCancelled when `run` says so.
Result<CalibrationTable> Calibrate(const artifact::Program& program, Session& session, guard::DataSet& data,
                                   std::span<const size_t> samples, const CalibrationOptions& options);

/// At most `count` of `samples`, spread evenly over them.
std::vector<size_t> Spread(std::span<const size_t> samples, size_t count);

}  // namespace tenon::quantize

#endif  // TENON_QUANTIZE_CALIBRATION_H_
