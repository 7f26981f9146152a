// Score transforms of ai.onnx.ml, as ONNX Runtime defines them, and what linear models, support vectors and trees share.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/ml/ml.h"

namespace tenon::kernels::ml {
namespace {

// Winitzki's approximation of the inverse error function, which the other runtimes use for PROBIT.
float InverseErf(float x) {
  const float sign = x < 0 ? -1.0f : 1.0f;
  const float log = std::log((1 - x) * (1 + x));
  const float v = 2 / (std::numbers::pi_v<float> * 0.147f) + 0.5f * log;
  return sign * std::sqrt(-v + std::sqrt(v * v - log / 0.147f));
}

template <typename T>
void Softmax(PostTransform transform, T* scores, int64_t n) {
  float top = -std::numeric_limits<float>::max();
  for (int64_t i = 0; i < n; ++i) top = std::max(top, static_cast<float>(scores[i]));
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto score = static_cast<float>(scores[i]);
    // SOFTMAX_ZERO keeps zeros at (almost) zero and leaves them out of the sum.
    if (transform == PostTransform::kSoftmaxZero && !(score > 1e-7f) && !(score < -1e-7f)) {
      scores[i] = static_cast<T>(score * std::exp(-top));
      continue;
    }
    const float e = std::exp(score - top);
    scores[i] = static_cast<T>(e);
    sum += e;
  }
  for (int64_t i = 0; i < n; ++i) scores[i] = static_cast<T>(static_cast<float>(scores[i]) / sum);
}

}  // namespace

float Logistic(float x) {
  const float v = 1 / (1 + std::exp(-std::abs(x)));
  return x < 0 ? 1 - v : v;
}

float Probit(float x) {
  return std::numbers::sqrt2_v<float> * InverseErf(2 * x - 1);
}

Result<PostTransform> PostTransformFromName(const std::string& name) {
  if (name == "NONE" || name.empty()) return PostTransform::kNone;
  if (name == "SOFTMAX") return PostTransform::kSoftmax;
  if (name == "LOGISTIC") return PostTransform::kLogistic;
  if (name == "SOFTMAX_ZERO") return PostTransform::kSoftmaxZero;
  if (name == "PROBIT") return PostTransform::kProbit;
  return BadInput("post_transform '{}'; allowed: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT", name);
}

template <typename T>
void Apply(PostTransform transform, T* scores, int64_t n) {
  switch (transform) {
    case PostTransform::kNone: return;
    case PostTransform::kLogistic:
      for (int64_t i = 0; i < n; ++i) scores[i] = static_cast<T>(Logistic(static_cast<float>(scores[i])));
      return;
    case PostTransform::kProbit:
      for (int64_t i = 0; i < n; ++i) scores[i] = static_cast<T>(Probit(static_cast<float>(scores[i])));
      return;
    default: return Softmax(transform, scores, n);
  }
}

template <typename T>
void ApplyToOne(PostTransform transform, T score, Second second, T* out) {
  const auto narrow = static_cast<float>(score);
  if (transform == PostTransform::kProbit) {
    out[0] = static_cast<T>(Probit(narrow));
    if (second != Second::kNone) out[1] = 0;   // ONNX Runtime writes no second score
  } else if (second == Second::kNone) {
    out[0] = score;
  } else if (second == Second::kComplement) {
    out[0] = 1 - score;
    out[1] = score;
  } else {
    const bool logistic = transform == PostTransform::kLogistic;
    out[0] = logistic ? static_cast<T>(Logistic(-narrow)) : -score;
    out[1] = logistic ? static_cast<T>(Logistic(narrow)) : score;
  }
}

template void Apply(PostTransform, float*, int64_t);
template void Apply(PostTransform, double*, int64_t);
template void ApplyToOne(PostTransform, float, Second, float*);
template void ApplyToOne(PostTransform, double, Second, double*);

Matrix AsMatrix(const Shape& shape) {
  if (shape.rank() == 0) return {1, 1};
  return shape.rank() == 1 ? Matrix{1, shape[0]} : Matrix{shape[0], shape.Product(1, shape.rank())};
}

Result<Dim> RowsOf(const ValueInfo& x) {
  if (!x.shape.has_rank()) return Dim::Unknown();
  if (x.shape.rank() == 1) return Dim(1);
  if (x.shape.rank() == 2) return x.shape[0];
  return BadInput("X has shape {}; [rows, features] or [features] needed", x.shape.ToString());
}

Status CheckNumeric(const ValueInfo& v) {
  if (v.dtype == DType::kUndefined || IsPlainNumeric(v.dtype)) return {};
  return BadInput("input is {}; a plain numeric type needed", DTypeName(v.dtype));
}

void LoadRow(const View& x, int64_t row, int64_t columns, float* to) {
  DispatchDType<TENON_NUMERIC_TYPES, bool>(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.Data<T>() + row * columns;
    for (int64_t c = 0; c < columns; ++c) to[c] = static_cast<float>(from[c]);
  });
}

Result<int64_t> CountLabels(const Attrs& attrs, const std::string& ints) {
  const size_t i = attrs.Ints(ints).size(), s = attrs.Strings("classlabels_strings").size();
  if ((i == 0) == (s == 0))
    return BadInput("{} labels in {} and {} in classlabels_strings; one list of labels needed", i, ints, s);
  return static_cast<int64_t>(i + s);
}

DType LabelType(const Attrs& attrs) {
  return attrs.Strings("classlabels_strings").empty() ? DType::kI64 : DType::kString;
}

Labels::Labels(const Attrs& attrs, const std::string& ints)
    : ints_(attrs.Ints(ints)), strings_(attrs.Strings("classlabels_strings")) {}

void Labels::Write(const MutView& out, int64_t row, int64_t label) const {
  if (!out.present()) return;
  if (strings_.empty()) {
    out.Data<int64_t>()[row] = ints_[static_cast<size_t>(label)];
  } else {
    out.Data<std::string>()[row] = strings_[static_cast<size_t>(label)];
  }
}

void Labels::WriteSign(const MutView& out, int64_t row, bool positive) const {
  if (!out.present()) return;
  if (strings_.empty()) {
    out.Data<int64_t>()[row] = positive ? 1 : 0;
  } else {
    out.Data<std::string>()[row] = std::string(1, positive ? '1' : '0');
  }
}

}  // namespace tenon::kernels::ml
