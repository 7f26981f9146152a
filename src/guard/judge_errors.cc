// Metrics of numbers: cosine, rmse, max-abs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "guard/judge.h"
#include "guard/values.h"

namespace tenon::guard {
namespace {

using Kind = MetricSpec::Kind;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sums over one row of one output.
struct Sums {
  double dot = 0;
  double own = 0;
  double truth = 0;
  double error = 0;
  double max_error = 0;
  double max_truth = 0;
  int64_t count = 0;

  void Add(const double* a, const double* b, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));   // equal infinities are no error
      const double e = same ? 0 : std::abs(a[i] - b[i]);
      if (!same || std::isfinite(a[i])) {
        dot += a[i] * b[i];
        own += a[i] * a[i];
        truth += b[i] * b[i];
      }
      error += e * e;
      max_error = std::isnan(e) ? kInfinity : std::max(max_error, e);
      if (std::isfinite(b[i])) max_truth = std::max(max_truth, std::abs(b[i]));
    }
    count += n;
  }
  double Cosine() const {
    if (own == 0 && truth == 0) return 1;
    const double c = dot / (std::sqrt(own) * std::sqrt(truth));
    return std::isfinite(c) ? std::clamp(c, -1.0, 1.0) : 0;
  }
  double MeanSquare() const { return std::isnan(error) ? kInfinity : count == 0 ? 0 : error / static_cast<double>(count); }
  double TruthSquare() const { return count == 0 ? 0 : truth / static_cast<double>(count); }
};

class ErrorJudge final : public Judge {
 public:
  explicit ErrorJudge(const MetricSpec& metric) : metric_(metric) {
    if (metric.kind == Kind::kRmse) evaluation_.combine = Evaluation::Combine::kRootMean;
    if (metric.kind == Kind::kMaxAbs) evaluation_.combine = Evaluation::Combine::kMax;
  }

  Status Add(const Sample& sample, const std::vector<HostTensor>& outputs, const std::vector<HostTensor>* reference) override {
    std::vector<std::vector<Sums>> by_output;   // [output][row]
    if (reference == nullptr) {
      TENON_ASSIGN_OR_RETURN(const HostTensor* output, ChooseOutput(metric_, outputs));
      TENON_RETURN_IF_ERROR(AddOutput(*output, sample.labels.view(), sample.rows, &by_output));
    } else {
      evaluation_.against_reference = true;
      TENON_RETURN_IF_ERROR(AddOutputs(sample, outputs, *reference, &by_output));
    }
    size_t rows = by_output[0].size();
    for (const auto& o : by_output) rows = o.size() == rows ? rows : 1;
    for (size_t r = 0; r < rows; ++r) AddRow(by_output, r, rows);
    return Status::Ok();
  }

  Result<Evaluation> Finish() override {
    evaluation_.value = Combined(evaluation_.values, evaluation_.combine);
    return std::move(evaluation_);
  }

 private:
  Status AddOutput(const HostTensor& output, const View& truth, int64_t rows, std::vector<std::vector<Sums>>* by_output) const {
    const auto a = Doubles(output);
    const auto b = Doubles(truth);
    if (!a || !b) return Unsupported("output '{}' has no numbers to compare", output.name);
    if (a->size() != b->size())
      return BadInput("output '{}' has {} elements; {} are to compare with", output.name, a->size(), b->size());
    const int64_t n = RowsOf(output, rows);
    const auto row = static_cast<int64_t>(a->size()) / n;
    auto& sums = by_output->emplace_back(static_cast<size_t>(n));
    for (int64_t r = 0; r < n; ++r) sums[static_cast<size_t>(r)].Add(a->data() + r * row, b->data() + r * row, row);
    return Status::Ok();
  }

  Status AddOutputs(const Sample& sample, const std::vector<HostTensor>& outputs, const std::vector<HostTensor>& reference,
                    std::vector<std::vector<Sums>>* by_output) const {
    // Numbers that the reference gives as floats; where there are none, any numbers.
    for (const bool floats : {true, false}) {
      for (const HostTensor& truth : reference) {
        if (!metric_.output.empty() && truth.name != metric_.output) continue;
        if (floats && !IsFloat(truth.dtype)) continue;
        const auto it = std::find_if(outputs.begin(), outputs.end(), [&](const HostTensor& t) { return t.name == truth.name; });
        if (it == outputs.end()) return BadInput("the model has no output '{}', the reference has", truth.name);
        if (!Doubles(truth)) continue;
        TENON_RETURN_IF_ERROR(AddOutput(*it, ViewOf(truth), sample.rows, by_output));
      }
      if (!by_output->empty()) return Status::Ok();
    }
    return ChooseOutput(metric_, outputs).ok() ? Unsupported("no output holds numbers to compare")
                                               : ChooseOutput(metric_, outputs).status();
  }

  // Row `r` of all outputs; all rows of them when outputs do not agree on how many there are.
  void AddRow(const std::vector<std::vector<Sums>>& by_output, size_t r, size_t rows) {
    double cosine = 1;
    Sums all;
    for (const auto& output : by_output) {
      Sums own = output[rows == output.size() ? r : 0];
      for (size_t k = rows == output.size() ? output.size() : 1; k < output.size(); ++k) Merge(output[k], &own);
      cosine = std::min(cosine, own.Cosine());
      Merge(own, &all);
    }
    switch (metric_.kind) {
      case Kind::kRmse:
        evaluation_.values.push_back(all.MeanSquare());
        if (evaluation_.against_reference) evaluation_.sizes.push_back(all.TruthSquare());
        break;
      case Kind::kMaxAbs:
        evaluation_.values.push_back(all.max_error);
        if (evaluation_.against_reference) evaluation_.sizes.push_back(all.max_truth);
        break;
      default: evaluation_.values.push_back(cosine);
    }
  }

  static void Merge(const Sums& from, Sums* to) {
    to->dot += from.dot;
    to->own += from.own;
    to->truth += from.truth;
    to->error += from.error;
    to->count += from.count;
    to->max_error = std::max(to->max_error, from.max_error);
    to->max_truth = std::max(to->max_truth, from.max_truth);
  }

  MetricSpec metric_;
  Evaluation evaluation_;
};

}  // namespace

std::unique_ptr<Judge> MakeErrorJudge(const MetricSpec& metric) {
  return std::make_unique<ErrorJudge>(metric);
}

}  // namespace tenon::guard
