#include "tune/kernel_choice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "guard/assess.h"
#include "guard/statistics.h"
#include "runtime/open.h"

namespace tenon::tune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLeastGain = 0.03;   // of the operator's time
constexpr int kRaceRounds = 21;

std::string Key(std::string_view name, std::string_view op, std::string_view shapes) {
  return fmt::format("{}|{}|{}", name, op, shapes);
}

// Times of one session's steps by key, over rounds.
class StepTimes final : public StepObserver {
 public:
  void OnStep(const StepRecord& r) override {
    const std::string key = Key(r.name, r.op, r.shapes);
    Row& row = rows_[key];
    row.node = r.name;
    row.op = r.op;
    row.kernel = r.kernel;
    row.shapes = r.shapes;
    row.run_us += static_cast<double>(r.duration_ns) / 1e3;
  }
  void EndRun(bool keep) {
    for (auto& [key, row] : rows_) {
      if (keep) row.us.push_back(row.run_us);
      row.run_us = 0;
    }
  }
  struct Row {
    std::string node, op, kernel, shapes;
    double run_us = 0;
    std::vector<double> us;
  };
  const std::map<std::string, Row>& rows() const { return rows_; }

 private:
  std::map<std::string, Row> rows_;
};

struct Contender {
  artifact::Program program;
  std::unique_ptr<Session> session;
  StepTimes times;
};

Result<std::unique_ptr<Contender>> Enter(artifact::Program program, const SessionOptions& options) {
  auto c = std::make_unique<Contender>();
  c->program = std::move(program);
  TENON_ASSIGN_OR_RETURN(c->session, runtime::OpenProgram(c->program, options));
  return c;
}

size_t CountSteps(const artifact::Program& program) {
  size_t n = program.steps.size();
  for (const auto& step : program.steps) {
    for (const auto& body : step.bodies) n += CountSteps(body);
  }
  return n;
}

// Other kernels that could serve each top-level step. Reports come step by step, each followed by those of its bodies (of a
// branch that cannot run there are none, so bodies end the list of steps that is known).
std::vector<std::vector<std::string>> Alternatives(const artifact::Program& program, const Session& session) {
  std::vector<std::vector<std::string>> all(program.steps.size());
  const std::vector<KernelReport> reports = session.kernels();
  size_t at = 0;
  for (size_t i = 0; i < program.steps.size() && at < reports.size(); ++i) {
    if (!program.steps[i].bodies.empty() && reports.size() != CountSteps(program)) break;
    all[i] = reports[at++].alternatives;
    for (const auto& body : program.steps[i].bodies) at += CountSteps(body);
  }
  return all;
}

// The largest relative difference of any float output; infinity where anything else differs.
double Difference(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].shape != b[i].shape || a[i].dtype != b[i].dtype) return INFINITY;
    if (a[i].dtype != DType::kF32) continue;
    const auto* x = static_cast<const float*>(a[i].data);
    const auto* y = static_cast<const float*>(b[i].data);
    double largest = 0;
    double difference = 0;
    for (size_t k = 0, n = a[i].bytes / sizeof(float); k < n; ++k) {
      if (std::isnan(x[k]) != std::isnan(y[k])) return INFINITY;
      if (!std::isfinite(x[k])) continue;
      largest = std::max(largest, static_cast<double>(std::abs(x[k])));
      difference = std::max(difference, static_cast<double>(std::abs(x[k] - y[k])));
    }
    worst = std::max(worst, difference / std::max(largest, 1e-30));
  }
  return worst;
}

class Tuner {
 public:
  Tuner(const artifact::Program& program, guard::DataSet& data, size_t sample, const KernelTuningOptions& options)
      : program_(program), data_(data), sample_(sample), o_(options), start_(Clock::now()) {}

  Result<KernelTuning> Run() {
    TENON_RETURN_IF_ERROR(EnterAll());
    result_.program = program_;
    if (contenders_.size() == 1) return Keep("every operator has one kernel only");
    TENON_RETURN_IF_ERROR(MeasureAll());
    Decide();
    if (result_.changed == 0) return Keep("the default kernels are the fastest");
    return Prove();
  }

 private:
  bool Stopped() const {
    if (o_.run.cancel != nullptr && o_.run.cancel->cancelled()) return true;
    return std::chrono::duration<double>(Clock::now() - start_).count() > o_.budget_s;
  }

  // The defaults, and as many further models as the step with most alternatives needs; each has one alternative of every step.
  Status EnterAll() {
    TENON_ASSIGN_OR_RETURN(auto first, Enter(program_, o_.session));
    alternatives_ = Alternatives(program_, *first->session);
    contenders_.push_back(std::move(first));
    size_t most = 0;
    for (const auto& a : alternatives_) most = std::max(most, a.size());
    for (size_t k = 0; k < most && !Stopped(); ++k) {
      artifact::Program variant = program_;
      for (size_t i = 0; i < variant.steps.size(); ++i) {
        if (k < alternatives_[i].size()) variant.steps[i].kernel = alternatives_[i][k];
      }
      TENON_ASSIGN_OR_RETURN(auto contender, Enter(std::move(variant), o_.session));
      contenders_.push_back(std::move(contender));
    }
    return Status::Ok();
  }

  Status MeasureAll() {
    TENON_ASSIGN_OR_RETURN(const guard::Sample sample, data_.Load(sample_));
    for (int round = -2; round < o_.rounds; ++round) {   // two to warm up
      if (Stopped()) break;
      if (o_.progress) o_.progress("kernels", static_cast<size_t>(std::max(round, 0)), static_cast<size_t>(o_.rounds));
      for (size_t k = 0; k < contenders_.size(); ++k) {
        Contender& c = *contenders_[(k + static_cast<size_t>(round + 2)) % contenders_.size()];
        RunOptions run = o_.run;
        run.observer = &c.times;
        TENON_RETURN_IF_ERROR(c.session->Run(sample.inputs, run).status());
        c.times.EndRun(round >= 0);
      }
    }
    return Status::Ok();
  }

  void Decide() {
    for (const auto& [key, first] : contenders_[0]->times.rows()) {
      if (first.kernel.empty() || first.us.size() < 3) continue;
      KernelDecision d{first.node, first.op, first.shapes, {{first.kernel, guard::Median(first.us)}}, first.kernel};
      for (size_t k = 1; k < contenders_.size(); ++k) {
        const auto it = contenders_[k]->times.rows().find(key);
        if (it == contenders_[k]->times.rows().end() || it->second.kernel == first.kernel || it->second.us.empty()) continue;
        const double us = guard::Median(it->second.us);
        d.candidates.push_back({it->second.kernel, us});
        const double noise = Noise(first.us, it->second.us);
        const double best = BestOf(d);
        if (us < best && us < d.candidates[0].us * (1 - std::max(noise, kLeastGain))) {
          d.winner = it->second.kernel;
          d.noise = noise;
        }
      }
      if (d.candidates.size() > 1) winners_[Key(d.node, d.op, "")][first.kernel] = d.winner;
      if (d.candidates.size() > 1) result_.decisions.push_back(std::move(d));
    }
    for (auto& step : result_.program.steps) {
      const auto it = winners_.find(Key(step.name, step.op, ""));
      if (it == winners_.end()) continue;
      // Steps of one name and operator that disagree (other shapes) keep the default.
      if (it->second.size() != 1 || it->second.begin()->first == it->second.begin()->second) continue;
      step.kernel = it->second.begin()->second;
      ++result_.changed;
    }
  }

  static double BestOf(const KernelDecision& d) {
    for (const Candidate& c : d.candidates) {
      if (c.kernel == d.winner) return c.us;
    }
    return d.candidates[0].us;
  }

  // Of the ratio of the two over the same rounds.
  static double Noise(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) ratios.push_back(b[i] / std::max(a[i], 1e-9));
    return guard::MedianNoise(std::move(ratios));
  }

  // The whole model, with all winners, against the one without.
  Result<KernelTuning> Prove() {
    TENON_ASSIGN_OR_RETURN(const auto tuned, Enter(result_.program, o_.session));
    TENON_ASSIGN_OR_RETURN(const guard::Sample sample, data_.Load(sample_));
    TENON_ASSIGN_OR_RETURN(const auto before, contenders_[0]->session->Run(sample.inputs, o_.run));
    TENON_ASSIGN_OR_RETURN(const auto after, tuned->session->Run(sample.inputs, o_.run));
    const double difference = Difference(before, after);
    constexpr double kBound = 2e-2;   // operators in bf16 round sums that other kernels take in another order
    if (difference > kBound) return Keep(fmt::format("kept the default kernels: the outputs differ by {:.2g}", difference));
    const std::vector<size_t> samples{sample_};
    TENON_ASSIGN_OR_RETURN(const guard::Duel duel,
                           guard::Race(*contenders_[0]->session, *tuned->session, data_, samples, kRaceRounds, o_.run));
    result_.before_us = duel.first_us;
    result_.after_us = duel.second_us;
    if (duel.second_us >= duel.first_us * (1 - duel.noise))
      return Keep("kept the default kernels: the whole model gains nothing");
    result_.accepted = true;
    result_.verdict =
        fmt::format("{} operators have another kernel, {:.3f} times as fast", result_.changed, duel.first_us / duel.second_us);
    return std::move(result_);
  }

  Result<KernelTuning> Keep(std::string verdict) {
    result_.program = program_;
    result_.changed = 0;
    result_.verdict = std::move(verdict);
    return std::move(result_);
  }

  const artifact::Program& program_;
  guard::DataSet& data_;
  size_t sample_;
  const KernelTuningOptions& o_;
  Clock::time_point start_;
  std::vector<std::vector<std::string>> alternatives_;   // by step
  std::vector<std::unique_ptr<Contender>> contenders_;   // the default first
  std::map<std::string, std::map<std::string, std::string>> winners_;   // node and operator -> default -> winner
  KernelTuning result_;
};

}  // namespace

Result<KernelTuning> ChooseKernels(const artifact::Program& program, guard::DataSet& data, size_t sample,
                                   const KernelTuningOptions& options) {
  return Tuner(program, data, sample, options).Run();
}

}  // namespace tenon::tune
