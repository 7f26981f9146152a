#include "guard/errors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "guard/values.h"

namespace tenon::guard {
namespace {

constexpr double kEpsilon = 0x1p-23;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Drops what is not finite on either side and counts what is wrong about it.
void KeepFinite(std::vector<double>* x, std::vector<double>* y, Errors* e) {
  size_t kept = 0;
  for (size_t i = 0; i < x->size(); ++i) {
    const double a = (*x)[i];
    const double b = (*y)[i];
    if (std::isfinite(a) && std::isfinite(b)) {
      (*x)[kept] = a;
      (*y)[kept++] = b;
      continue;
    }
    if (std::isnan(a)) {
      e->nan += std::isnan(b) ? 0 : 1;
    } else if (a != b) {
      ++e->infinite;
    }
  }
  x->resize(kept);
  y->resize(kept);
}

void AddSums(const std::vector<double>& x, const std::vector<double>& y, Errors* e) {
  double xy = 0;
  double xx = 0;
  double yy = 0;
  double squares = 0;
  double sum_x = 0;
  double sum_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = std::abs(x[i] - y[i]);
    xy += x[i] * y[i];
    xx += x[i] * x[i];
    yy += y[i] * y[i];
    squares += d * d;
    sum_x += x[i];
    sum_y += y[i];
    e->mean_abs += d;
    e->max_abs = std::max(e->max_abs, d);
    e->max_truth = std::max(e->max_truth, std::abs(y[i]));
    if (std::abs(y[i]) > kEpsilon) {
      const double relative = std::abs(x[i] / y[i] - 1);
      e->accumulated_relative += relative;
      e->max_relative = std::max(e->max_relative, relative);
    }
  }
  const auto n = static_cast<double>(x.size());
  e->mean_abs /= n;
  e->rmse = std::sqrt(squares / n);
  e->mean_relative = e->accumulated_relative / n;
  e->relative_euclidean = std::sqrt(yy) <= kEpsilon ? 0 : std::sqrt(squares / yy);
  const bool zeros = std::sqrt(xx) <= kEpsilon && std::sqrt(yy) <= kEpsilon;
  const double norms = std::sqrt(xx) * std::sqrt(yy);
  e->cosine = zeros || x.size() == 1 ? 1 : norms > 0 ? std::clamp(xy / norms, -1.0, 1.0) : 0;
  e->mean = sum_x / n;
  e->truth_mean = sum_y / n;
  for (size_t i = 0; i < x.size(); ++i) {
    e->deviation += (x[i] - e->mean) * (x[i] - e->mean);
    e->truth_deviation += (y[i] - e->truth_mean) * (y[i] - e->truth_mean);
  }
  e->deviation = std::sqrt(e->deviation / n);
  e->truth_deviation = std::sqrt(e->truth_deviation / n);
}

// Scaled to [eps, 1] by its own range; returns the sum.
double ScaleToUnit(std::vector<double>* x) {
  const auto [low, high] = std::minmax_element(x->begin(), x->end());
  const double from = *low;
  const double range = *high - from;
  double sum = 0;
  for (double& v : *x) {
    if (range > 0) v = (v - from) / range;
    v = std::max(v, kEpsilon);
    sum += v;
  }
  return sum;
}

std::vector<double> SameTexts(const View& value, const View& truth) {
  std::vector<double> same;
  for (int64_t i = 0; i < value.num_elements(); ++i)
    same.push_back(value.Data<std::string>()[i] == truth.Data<std::string>()[i] ? 1 : 0);
  return same;
}

double Divergence(std::vector<double> x, std::vector<double> y) {
  const double sum_x = ScaleToUnit(&x);
  const double sum_y = ScaleToUnit(&y);
  double result = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double p = x[i] / sum_x;
    result += p * std::log(p / (y[i] / sum_y));
  }
  return std::abs(result) < kEpsilon ? 0 : result;
}

}  // namespace

double Errors::Score() const {
  if (overflow()) return kInfinity;
  if (max_truth <= kEpsilon * kEpsilon) return max_abs <= kEpsilon ? 0 : kInfinity;
  return std::max(relative_euclidean, max_abs / max_truth);
}

std::string Errors::StandardDeviationText() const {
  return fmt::format("({:.3f};{:.3f}),({:.3f};{:.3f})", mean, deviation, truth_mean, truth_deviation);
}

Result<Errors> CompareValues(const View& value, const View& truth) {
  if (!(value.shape == truth.shape))
    return BadInput("shape {}; the other has {}", value.shape.ToString(), truth.shape.ToString());
  const bool texts = value.dtype == DType::kString && truth.dtype == DType::kString;
  auto x = texts ? std::optional(SameTexts(value, truth)) : Doubles(value);
  auto y = texts ? std::optional(std::vector<double>(x->size(), 1)) : Doubles(truth);
  if (!x || !y) return Unsupported("{} and {} are not compared", DTypeName(value.dtype), DTypeName(truth.dtype));
  Errors e;
  e.elements = static_cast<int64_t>(x->size());
  KeepFinite(&*x, &*y, &e);
  if (x->empty()) return e;
  AddSums(*x, *y, &e);
  e.kl_divergence = Divergence(std::move(*x), std::move(*y));
  return e;
}

Result<Errors> CompareValues(const HostTensor& value, const HostTensor& truth) {
  if (value.is_sequence != truth.is_sequence) return BadInput("one is a sequence and the other is not");
  if (!value.is_sequence) return CompareValues(ViewOf(value), ViewOf(truth));
  if (value.sequence.size() != truth.sequence.size())
    return BadInput("a sequence of {}; the other has {}", value.sequence.size(), truth.sequence.size());
  Errors worst;
  for (size_t i = 0; i < value.sequence.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const Errors e, CompareValues(value.sequence[i], truth.sequence[i]));
    worst = i == 0 ? e : Worse(worst, e);
  }
  return worst;
}

Errors Worse(const Errors& a, const Errors& b) {
  Errors w = a.Score() >= b.Score() ? a : b;   // mean, deviation and size are those of the worse sample
  w.cosine = std::min(a.cosine, b.cosine);
  for (double Errors::* field :
       {&Errors::max_abs, &Errors::accumulated_relative, &Errors::relative_euclidean, &Errors::kl_divergence, &Errors::mean_abs,
        &Errors::rmse, &Errors::max_relative, &Errors::mean_relative}) {
    w.*field = std::max(a.*field, b.*field);
  }
  w.nan = std::max(a.nan, b.nan);
  w.infinite = std::max(a.infinite, b.infinite);
  return w;
}

}  // namespace tenon::guard
