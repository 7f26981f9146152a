#include "guard/assess.h"

#include <chrono>
#include <cmath>
#include <limits>

#include "guard/judge.h"
#include "guard/statistics.h"

namespace tenon::guard {
namespace {

using Clock = std::chrono::steady_clock;

double Us(Clock::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

// Sums of squares of one output over all samples.
struct Squares {
  double difference = 0;
  double reference = 0;
  double Relative() const { return difference == 0 ? 0 : std::sqrt(difference / std::max(reference, 1e-300)); }
};

void AddSquares(const HostTensor& output, const HostTensor& reference, Squares* sum) {
  if (output.dtype != DType::kF32 || reference.dtype != DType::kF32) return;
  if (output.shape != reference.shape) {
    sum->difference = std::numeric_limits<double>::infinity();
    return;
  }
  const auto* a = static_cast<const float*>(output.data);
  const auto* b = static_cast<const float*>(reference.data);
  for (size_t i = 0, n = output.bytes / sizeof(float); i < n; ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      sum->reference += std::isfinite(b[i]) ? static_cast<double>(b[i]) * b[i] : 0;
      continue;
    }
    const double d = static_cast<double>(a[i]) - b[i];
    sum->difference += std::isfinite(d) ? d * d : std::numeric_limits<double>::infinity();
    sum->reference += std::isfinite(b[i]) ? static_cast<double>(b[i]) * b[i] : 0;
  }
}

class NodeTimes final : public StepObserver {
 public:
  void OnStep(const StepRecord& r) override { run_[std::string(r.name)] += static_cast<double>(r.duration_ns) / 1e3; }
  void EndRun() {
    for (const auto& [name, us] : run_) all_[name].push_back(us);
    run_.clear();
  }
  std::map<std::string, double> Medians() const {
    std::map<std::string, double> medians;
    for (const auto& [name, us] : all_) medians[name] = Median(us);
    return medians;
  }

 private:
  std::map<std::string, double> run_;
  std::map<std::string, std::vector<double>> all_;
};

}  // namespace

Result<Assessment> Assess(Session& session, DataSet& data, std::span<const size_t> samples, const MetricSpec& metric,
                          References& references, const RunOptions& run) {
  TENON_ASSIGN_OR_RETURN(const auto judge, MakeJudge(metric));
  std::vector<Squares> sums;
  for (const size_t i : samples) {
    TENON_ASSIGN_OR_RETURN(const Sample sample, data.Load(i));
    TENON_ASSIGN_OR_RETURN(const std::vector<HostTensor>* reference, references.Get(i, run));
    auto outputs = session.Run(sample.inputs, run);
    if (!outputs.ok()) return std::move(outputs).TakeStatus().Within(sample.where);
    TENON_RETURN_IF_ERROR(
        judge->Add(sample, *outputs, NeedsReference(metric, sample) ? reference : nullptr).Within(sample.where));
    sums.resize(std::max(sums.size(), outputs->size()));
    for (size_t k = 0; k < outputs->size() && k < reference->size(); ++k) AddSquares((*outputs)[k], (*reference)[k], &sums[k]);
  }
  Assessment assessment;
  TENON_ASSIGN_OR_RETURN(assessment.evaluation, judge->Finish());
  assessment.evaluation.metric = metric.name;
  assessment.evaluation.higher_is_better = metric.higher_is_better;
  for (const Squares& s : sums) assessment.error = std::max(assessment.error, s.Relative());
  return assessment;
}

Result<Times> Measure(Session& session, DataSet& data, std::span<const size_t> samples, int rounds, const RunOptions& run) {
  NodeTimes nodes;
  RunOptions observed = run;
  observed.observer = &nodes;
  std::vector<double> runs;
  for (const size_t i : samples) {
    TENON_ASSIGN_OR_RETURN(const Sample sample, data.Load(i));
    TENON_RETURN_IF_ERROR(session.Run(sample.inputs, run).status());
    for (int round = 0; round < rounds; ++round) {
      TENON_RETURN_IF_ERROR(session.Run(sample.inputs, observed).status());
      nodes.EndRun();
      const auto start = Clock::now();
      TENON_RETURN_IF_ERROR(session.Run(sample.inputs, run).status());
      runs.push_back(Us(Clock::now() - start));
    }
  }
  return Times{Median(runs), nodes.Medians()};
}

Result<Duel> Race(Session& first, Session& second, DataSet& data, std::span<const size_t> samples, int rounds,
                  const RunOptions& run) {
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> ratios;
  for (const size_t i : samples) {
    TENON_ASSIGN_OR_RETURN(const Sample sample, data.Load(i));
    for (int round = -1; round < rounds; ++round) {   // the first round plans for the shapes
      double us[2];
      for (int k = 0; k < 2; ++k) {
        const bool is_first = (k == 0) == (round % 2 == 0);
        const auto start = Clock::now();
        TENON_RETURN_IF_ERROR((is_first ? first : second).Run(sample.inputs, run).status());
        us[is_first ? 0 : 1] = Us(Clock::now() - start);
      }
      if (round < 0) continue;
      a.push_back(us[0]);
      b.push_back(us[1]);
      ratios.push_back(us[1] / us[0]);
    }
  }
  return Duel{Median(std::move(a)), Median(std::move(b)), Median(ratios), MedianNoise(ratios)};
}

}  // namespace tenon::guard
