// Metrics of classes: the highest score along the last axis against a label or against the reference's.
#include <algorithm>
#include <cmath>
#include <limits>

#include "guard/judge.h"
#include "guard/scores.h"
#include "guard/values.h"

namespace tenon::guard {
namespace {

using Kind = MetricSpec::Kind;

// Is `label` among the `k` highest scores? Of equal scores the lower class comes first.
bool Among(const Scores& scores, int64_t row, int64_t position, int64_t label, int64_t k) {
  if (scores.classes == 0 || k == 1) return BestClass(scores, row, position) == label;
  if (label < 0 || label >= scores.classes) return false;
  const auto s = scores.At(row, position);
  const double own = s[static_cast<size_t>(label)];
  if (std::isnan(own)) return false;
  int64_t before = 0;
  for (int64_t c = 0; c < scores.classes; ++c) {
    const double other = s[static_cast<size_t>(c)];
    before += (other > own || (other == own && c < label)) ? 1 : 0;
  }
  return before < k;
}

class ClassJudge final : public Judge {
 public:
  explicit ClassJudge(const MetricSpec& metric) : metric_(metric) {}

  Status Add(const Sample& sample, const std::vector<HostTensor>& outputs, const std::vector<HostTensor>* reference) override {
    TENON_ASSIGN_OR_RETURN(const HostTensor* output, ChooseOutput(metric_, outputs));
    TENON_ASSIGN_OR_RETURN(const Scores scores, ScoresOf(*output, sample.rows));
    const bool sequences = metric_.kind == Kind::kExactMatch || metric_.kind == Kind::kCtcExactMatch;
    std::vector<std::vector<int64_t>> wanted;
    if (reference != nullptr) {
      evaluation_.against_reference = true;
      TENON_ASSIGN_OR_RETURN(wanted, FromReference(*reference, scores, sequences));
    } else {
      TENON_ASSIGN_OR_RETURN(wanted, FromLabels(sample.labels, scores, sequences));
    }
    for (int64_t r = 0; r < scores.rows; ++r) {
      const auto& labels = wanted[static_cast<size_t>(r)];
      evaluation_.values.push_back(sequences ? (Classes(scores, r) == labels ? 1 : 0) : Share(scores, r, labels));
      if (scores.classes > 0) AddMargins(scores, r, labels);
    }
    return Status::Ok();
  }

  Result<Evaluation> Finish() override {
    evaluation_.value = Combined(evaluation_.values, evaluation_.combine);
    return std::move(evaluation_);
  }

 private:
  void AddMargins(const Scores& s, int64_t row, const std::vector<int64_t>& labels) {
    const size_t index = evaluation_.values.size() - 1;
    if (metric_.kind == Kind::kCtcExactMatch) return evaluation_.margins.push_back({index, CtcLead(s, row, labels)});
    const int64_t k = metric_.kind == Kind::kTop5 ? 5 : 1;
    const bool as_many = std::ssize(labels) == s.positions;
    double least = as_many ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    for (int64_t p = 0; as_many && p < s.positions; ++p) {
      const double lead = LeadOf(s.At(row, p), labels[static_cast<size_t>(p)], k);
      if (metric_.kind != Kind::kExactMatch) evaluation_.margins.push_back({index, lead});
      least = std::min(least, lead);
    }
    if (metric_.kind == Kind::kExactMatch) evaluation_.margins.push_back({index, least});
  }

  double Share(const Scores& s, int64_t row, const std::vector<int64_t>& labels) const {
    const int64_t k = metric_.kind == Kind::kTop5 ? 5 : 1;
    int64_t hits = 0;
    for (int64_t p = 0; p < s.positions; ++p) hits += Among(s, row, p, labels[static_cast<size_t>(p)], k) ? 1 : 0;
    return s.positions == 0 ? 1 : static_cast<double>(hits) / static_cast<double>(s.positions);
  }

  std::vector<int64_t> Classes(const Scores& s, int64_t row) const {
    std::vector<int64_t> all;
    for (int64_t p = 0; p < s.positions; ++p) all.push_back(BestClass(s, row, p));
    return metric_.kind == Kind::kCtcExactMatch ? CtcDecode(std::move(all)) : all;
  }

  Result<std::vector<std::vector<int64_t>>> FromReference(const std::vector<HostTensor>& reference, const Scores& scores,
                                                          bool sequences) const {
    TENON_ASSIGN_OR_RETURN(const HostTensor* output, ChooseOutput(metric_, reference));
    TENON_ASSIGN_OR_RETURN(const Scores truth, ScoresOf(*output, scores.rows));
    const bool same = truth.rows == scores.rows && (sequences || truth.positions == scores.positions);
    if (!same) return BadInput("output '{}' has another shape than the reference's", output->name);
    std::vector<std::vector<int64_t>> wanted;
    for (int64_t r = 0; r < truth.rows; ++r) {
      if (sequences) {
        wanted.push_back(Classes(truth, r));
        continue;
      }
      auto& row = wanted.emplace_back();
      for (int64_t p = 0; p < truth.positions; ++p) row.push_back(BestClass(truth, r, p));
    }
    return wanted;
  }

  Result<std::vector<std::vector<int64_t>>> FromLabels(const Tensor& labels, const Scores& scores, bool sequences) const {
    const auto all = ToInt64s(labels.view());
    if (!all) return BadInput("labels are {}; {} needs integers", DTypeName(labels.dtype()), metric_.name);
    const auto n = static_cast<int64_t>(all->size());
    if (scores.rows == 0 || n % scores.rows != 0 || (!sequences && n != scores.rows * scores.positions)) {
      return BadInput("{} labels for {} rows of {} positions", n, scores.rows, scores.positions);
    }
    std::vector<std::vector<int64_t>> wanted;
    for (int64_t r = 0; r < scores.rows; ++r) {
      auto& row = wanted.emplace_back(all->begin() + r * (n / scores.rows), all->begin() + (r + 1) * (n / scores.rows));
      if (metric_.kind == Kind::kCtcExactMatch) std::erase_if(row, [](int64_t c) { return c <= 0; });
      if (metric_.kind == Kind::kExactMatch) std::erase(row, -1);
    }
    return wanted;
  }

  MetricSpec metric_;
  Evaluation evaluation_;
};

}  // namespace

std::unique_ptr<Judge> MakeClassJudge(const MetricSpec& metric) {
  return std::make_unique<ClassJudge>(metric);
}

}  // namespace tenon::guard
