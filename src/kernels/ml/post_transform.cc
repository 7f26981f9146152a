// Score transforms of ai.onnx.ml, as ONNX Runtime and ONNX's reference define them.
#include <cmath>
#include <numbers>

#include "kernels/ml/ml.h"

namespace tenon::kernels::ml {
namespace {

// Winitzki's approximation of the inverse error function, which the other runtimes use for PROBIT.
double InverseErf(double x) {
  const double sign = x < 0 ? -1 : 1;
  const double log = std::log((1 - x) * (1 + x));
  if (!std::isfinite(log)) return 0;
  const double v = 2 / (std::numbers::pi * 0.147) + 0.5 * log;
  return sign * std::sqrt(-v + std::sqrt(v * v - log / 0.147));
}

}  // namespace

Result<PostTransform> PostTransformFromName(const std::string& name) {
  if (name == "NONE" || name.empty()) return PostTransform::kNone;
  if (name == "SOFTMAX") return PostTransform::kSoftmax;
  if (name == "LOGISTIC") return PostTransform::kLogistic;
  if (name == "SOFTMAX_ZERO") return PostTransform::kSoftmaxZero;
  if (name == "PROBIT") return PostTransform::kProbit;
  return BadInput("post_transform '{}'; allowed: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT", name);
}

void Apply(PostTransform transform, double* scores, int64_t n) {
  if (transform == PostTransform::kNone || n == 0) return;
  if (transform == PostTransform::kLogistic || transform == PostTransform::kProbit) {
    for (int64_t i = 0; i < n; ++i) {
      scores[i] = transform == PostTransform::kLogistic ? 1 / (1 + std::exp(-scores[i]))
                                                        : std::numbers::sqrt2 * InverseErf(2 * scores[i] - 1);
    }
    return;
  }
  double top = scores[0];
  for (int64_t i = 1; i < n; ++i) top = std::max(top, scores[i]);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    // SOFTMAX_ZERO keeps zeros at (almost) zero.
    const bool zero = transform == PostTransform::kSoftmaxZero && std::abs(scores[i]) <= 1e-7;
    scores[i] = zero ? scores[i] * std::exp(-top) : std::exp(scores[i] - top);
    sum += scores[i];
  }
  for (int64_t i = 0; i < n; ++i) scores[i] = sum == 0 ? 0.5 : scores[i] / sum;
}

}  // namespace tenon::kernels::ml
