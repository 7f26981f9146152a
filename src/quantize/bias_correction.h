// Rounding weights and activations moves the mean of what an operator gives. Folded into its bias, the mean is right again.
//
//   shift[n] = sum over k of mean(x[k]) w[k, n] - mean(round(x)[k]) round(w)[k, n]
//
// with means over the calibration samples, by channel of x (for convolutions as if no window reached beyond the border).
#ifndef TENON_QUANTIZE_BIAS_CORRECTION_H_
#define TENON_QUANTIZE_BIAS_CORRECTION_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "artifact/program.h"
#include "guard/data.h"

namespace tenon::quantize {

class BiasCorrection {
 public:
  /// `full` is the f32 model, which `session` runs; `lowered` the same with everything lowered that may be.
  static Result<BiasCorrection> Measure(const artifact::Program& full, Session& session, const artifact::Program& lowered,
                                        guard::DataSet& data, std::span<const size_t> samples, const RunOptions& run);

  /// Corrects those operators of `program`, lowered from the same model, that compute in integers. Returns how many.
  Result<size_t> Apply(artifact::Program* program) const;

  /// By name of the first output in the f32 model: what the bias of each output channel gains.
  const std::map<std::string, std::vector<float>>& shifts() const { return shifts_; }

 private:
  std::map<std::string, std::vector<float>> shifts_;
};

}  // namespace tenon::quantize

#endif  // TENON_QUANTIZE_BIAS_CORRECTION_H_
