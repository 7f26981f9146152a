// Judging one run after another by a metric.
#ifndef TENON_GUARD_JUDGE_H_
#define TENON_GUARD_JUDGE_H_

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "guard/metrics.h"

namespace tenon::guard {

class Judge {
 public:
  virtual ~Judge() = default;
  /// `reference`: outputs of the reference, null where labels are judged by.
  virtual Status Add(const Sample& sample, const std::vector<HostTensor>& outputs, const std::vector<HostTensor>* reference) = 0;
  virtual Result<Evaluation> Finish() = 0;
};

Result<std::unique_ptr<Judge>> MakeJudge(const MetricSpec& metric);

// One for each kind of metric: judge_classes.cc, judge_errors.cc, judge_ranks.cc, judge_command.cc.
std::unique_ptr<Judge> MakeClassJudge(const MetricSpec& metric);
std::unique_ptr<Judge> MakeErrorJudge(const MetricSpec& metric);
std::unique_ptr<Judge> MakeRankJudge(const MetricSpec& metric);
Result<std::unique_ptr<Judge>> MakeCommandJudge(const MetricSpec& metric);

/// The output that `metric` names, or the first numeric one. kUsage: none of this name; kUnsupported: none is numeric.
Result<const HostTensor*> ChooseOutput(const MetricSpec& metric, const std::vector<HostTensor>& outputs);

/// Rows of a run's output: `rows` when its first extent counts them, else 1.
int64_t RowsOf(const HostTensor& output, int64_t rows);

/// Combines values one by one; 0 for none.
class Combiner {
 public:
  explicit Combiner(Evaluation::Combine how) : how_(how) {}
  void Add(double v) {
    sum_ += v;
    max_ = std::max(max_, v);
    ++count_;
  }
  double Get() const {
    if (count_ == 0) return 0;
    const double mean = sum_ / static_cast<double>(count_);
    return how_ == Evaluation::Combine::kMax ? max_ : how_ == Evaluation::Combine::kRootMean ? std::sqrt(mean) : mean;
  }

 private:
  Evaluation::Combine how_;
  double sum_ = 0;
  double max_ = -std::numeric_limits<double>::infinity();
  size_t count_ = 0;
};

/// The values combined as `how` says; 0 for none.
double Combined(const std::vector<double>& values, Evaluation::Combine how);

}  // namespace tenon::guard

#endif  // TENON_GUARD_JUDGE_H_
