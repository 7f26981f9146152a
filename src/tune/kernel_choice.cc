#include "tune/kernel_choice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "guard/assess.h"
#include "guard/statistics.h"
#include "tune/contenders.h"

namespace tenon::tune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLeastGain = 0.03;   // of the operator's time
constexpr int kWarmUps = 2;
constexpr size_t kLeastRounds = 5;    // for any decision
constexpr int kRaceRounds = 21;

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

bool AllF32(const artifact::Program& program) {
  return std::none_of(program.values.begin(), program.values.end(), [](const artifact::ProgramValue& v) {
    return v.dtype == DType::kBF16 || v.dtype == DType::kF16 || v.dtype == DType::kI8 || v.dtype == DType::kU8;
  });
}

// One problem while it is measured.
struct Open {
  size_t decision = 0;
  std::vector<std::vector<double>> us;   // by candidate, by round
};

// Of candidate `k` to the default over the rounds they share.
std::vector<double> Ratios(const Open& open, size_t k) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(open.us[0].size(), open.us[k].size()); ++i)
    ratios.push_back(open.us[k][i] / std::max(open.us[0][i], 1e-9));
  return ratios;
}

class Tuner {
 public:
  Tuner(const artifact::Program& program, guard::DataSet& data, size_t sample, const KernelTuningOptions& options)
      : program_(program), data_(data), sample_index_(sample), o_(options), run_(options.run) {}

  Result<KernelTuning> Run() {
    result_.program = program_;
    Status status = Search();
    if (status.code() == Code::kCancelled) {
      result_.complete = false;
      return Keep("stopped before there was something to gain: the default kernels");
    }
    TENON_RETURN_IF_ERROR(std::move(status));
    return std::move(result_);
  }

 private:
  Status Search() {
    TENON_ASSIGN_OR_RETURN(sample_, data_.Load(sample_index_));
    TENON_RETURN_IF_ERROR(Describe());
    if (result_.decisions.empty()) return KeepAs("every operator has one kernel only");
    Recall();
    if (!open_.empty()) TENON_RETURN_IF_ERROR(MeasureAll());
    Apply();
    if (result_.changed == 0)
      return KeepAs(result_.complete ? "the default kernels are the fastest" : "stopped early: the default kernels");
    return Prove();
  }

  bool Stopped(double reserve_us = 0) const {
    if (run_.cancel != nullptr && run_.cancel->cancelled()) return true;
    return Clock::now() + std::chrono::microseconds(static_cast<int64_t>(reserve_us)) >= run_.deadline;
  }

  // The model as it is, and the problems in it that more than one kernel can serve.
  Status Describe() {
    TENON_ASSIGN_OR_RETURN(default_, Contender::Enter(program_, {}, o_.session));
    TENON_RETURN_IF_ERROR(default_->session().Run(sample_.inputs, run_).status());   // plans for the shapes
    const auto start = Clock::now();
    TENON_ASSIGN_OR_RETURN(const auto infos, default_->Describe(sample_.inputs, run_));
    run_us_ = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    const auto alternatives = default_->Alternatives();
    std::map<std::string, size_t> index;
    for (size_t i = 0; i < infos.size(); ++i) {
      if (!infos[i].ran || infos[i].kernel.empty() || alternatives[i].empty()) continue;
      std::vector<std::string> kernels = {infos[i].kernel};
      kernels.insert(kernels.end(), alternatives[i].begin(), alternatives[i].end());
      const artifact::Step& step = program_.steps[i];
      const std::string problem = ProblemOf(program_, step, infos[i].details, kernels, default_->session().threads());
      const auto [it, fresh] = index.emplace(problem, result_.decisions.size());
      if (fresh) {
        KernelDecision d;
        d.op = step.op;
        d.shapes = infos[i].shapes;
        d.problem = problem;
        d.winner = kernels[0];
        for (std::string& k : kernels) d.candidates.push_back({std::move(k)});
        result_.decisions.push_back(std::move(d));
      }
      result_.decisions[it->second].nodes.push_back(step.name);
      result_.decisions[it->second].steps.push_back(i);
    }
    return Status::Ok();
  }

  // What the records know is decided; the rest is open.
  void Recall() {
    for (size_t i = 0; i < result_.decisions.size(); ++i) {
      KernelDecision& d = result_.decisions[i];
      std::optional<std::string> choice;
      if (o_.records != nullptr) choice = o_.records->Find(RecordTable::kChoices, "kernel", d.problem);
      const bool known = choice && std::any_of(d.candidates.begin(), d.candidates.end(),
                                               [&](const Candidate& c) { return c.kernel == *choice; });
      if (!known) {
        open_.push_back({i, std::vector<std::vector<double>>(d.candidates.size())});
        continue;
      }
      d.winner = *choice;
      d.decided = d.recorded = true;
      d.why = "known from the records";
      for (Candidate& c : d.candidates) RecallTiming(d.problem, &c);
    }
  }

  void RecallTiming(const std::string& problem, Candidate* c) {
    const auto text = o_.records->Find(RecordTable::kTimings, problem, c->kernel);
    if (!text) return;
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (!json.is_object()) return;
    const auto number = [&](const char* name) {
      return json.contains(name) && json[name].is_number() ? json[name].get<double>() : 0.0;
    };
    c->us = number("us");
    c->noise = number("noise");
    c->rounds = static_cast<int>(std::clamp(number("rounds"), 0.0, 1e6));
  }

  KernelWishes Winners() const {
    KernelWishes wishes;
    for (const KernelDecision& d : result_.decisions) {
      if (d.winner == d.candidates[0].kernel) continue;
      for (const size_t step : d.steps) wishes[step] = d.winner;
    }
    return wishes;
  }

  // The model with candidate `k` of every open problem that has one.
  KernelWishes WishesOf(size_t k) const {
    KernelWishes wishes = Winners();
    for (const Open& open : open_) {
      const KernelDecision& d = result_.decisions[open.decision];
      if (k >= d.candidates.size() || !d.candidates[k].failure.empty()) continue;
      for (const size_t step : d.steps) wishes[step] = d.candidates[k].kernel;
    }
    return wishes;
  }

  Result<std::unique_ptr<Contender>> Try(const KernelWishes& wishes) {
    TENON_ASSIGN_OR_RETURN(auto contender, Contender::Enter(program_, wishes, o_.session));
    TENON_RETURN_IF_ERROR(contender->session().Run(sample_.inputs, run_).status());
    return contender;
  }

  // Where one candidate fails the others of its round go on without it.
  Result<std::unique_ptr<Contender>> EnterRound(size_t k) {
    auto contender = Try(WishesOf(k));
    if (contender.ok() || contender.status().code() == Code::kCancelled) return contender;
    for (const Open& open : open_) {
      KernelDecision& d = result_.decisions[open.decision];
      if (k == 0 || k >= d.candidates.size()) continue;
      KernelWishes one;
      for (const size_t step : d.steps) one[step] = d.candidates[k].kernel;
      const auto alone = Try(one);
      if (alone.status().code() == Code::kCancelled) return alone.status();
      if (!alone.ok()) d.candidates[k].failure = alone.status().message();
    }
    return Try(WishesOf(k));
  }

  Status MeasureAll() {
    size_t most = 0;
    for (const Open& open : open_) most = std::max(most, open.us.size());
    std::vector<std::unique_ptr<Contender>> contenders(most);
    for (size_t k = 0; k < most; ++k) {
      TENON_ASSIGN_OR_RETURN(contenders[k], EnterRound(k));
    }
    Status status;
    const double reserve_us = run_us_ * (2 * kRaceRounds + 6);   // to prove what was found
    for (int round = -kWarmUps; round < o_.rounds && !open_.empty() && !Stopped(reserve_us); ++round) {
      if (o_.progress) o_.progress("kernels", static_cast<size_t>(std::max(round, 0)), static_cast<size_t>(o_.rounds));
      status = MeasureRound(contenders, round);
      if (!status.ok()) break;
      Close(round + 1 == o_.rounds);
    }
    if (!status.ok() && status.code() != Code::kCancelled) return status;
    if (!open_.empty()) result_.complete = false;
    // What has enough rounds is decided although there was no time for all of them.
    Close(true);
    return Status::Ok();
  }

  Status MeasureRound(const std::vector<std::unique_ptr<Contender>>& contenders, int round) {
    for (size_t at = 0; at < contenders.size(); ++at) {
      const size_t k = (at + static_cast<size_t>(round + kWarmUps)) % contenders.size();
      const bool needed = std::any_of(open_.begin(), open_.end(), [&](const Open& open) { return k < open.us.size(); });
      if (!needed) continue;
      TENON_ASSIGN_OR_RETURN(const std::vector<double> us, contenders[k]->Time(sample_.inputs, run_));
      if (round < 0) continue;
      for (Open& open : open_) {
        const KernelDecision& d = result_.decisions[open.decision];
        if (k >= open.us.size() || !d.candidates[k].failure.empty()) continue;
        double sum = 0;
        for (const size_t step : d.steps) sum += us[step];
        open.us[k].push_back(sum);
      }
    }
    return Status::Ok();
  }

  // Decides what can be decided; at the last round all that has been measured enough.
  void Close(bool last) {
    std::erase_if(open_, [&](const Open& open) {
      if (open.us[0].size() < kLeastRounds || (!last && !IsClear(open))) return false;
      Decide(open);
      return true;
    });
  }

  // More rounds would not change the decision: at most one candidate is faster, and all are well on one side.
  static bool IsClear(const Open& open) {
    int faster = 0;
    for (size_t k = 1; k < open.us.size(); ++k) {
      if (open.us[k].empty()) continue;
      const std::vector<double> ratios = Ratios(open, k);
      const double ratio = guard::Median(ratios);
      const double noise = 2 * guard::MedianNoise(ratios);
      if (std::abs(ratio - (1 - kLeastGain)) <= noise) return false;
      faster += ratio < 1 - kLeastGain ? 1 : 0;
    }
    return faster <= 1;
  }

  // In the order of the table: a later candidate must beat what was best before by as much as that had to beat the default.
  void Decide(const Open& open) {
    KernelDecision& d = result_.decisions[open.decision];
    double best = 1;
    size_t winner = 0;
    size_t nearest = 0;   // the fastest of those that did not win
    for (size_t k = 0; k < open.us.size(); ++k) {
      Candidate& c = d.candidates[k];
      if (!c.failure.empty() || open.us[k].empty()) continue;
      const std::vector<double> ratios = Ratios(open, k);
      c.us = guard::Median(open.us[k]);
      c.noise = k == 0 ? 0 : guard::MedianNoise(ratios);
      c.rounds = static_cast<int>(open.us[k].size());
      const double ratio = guard::Median(ratios);
      if (k > 0 && ratio < best * (1 - std::max(c.noise, kLeastGain))) {
        best = ratio;
        winner = k;
      } else if (k > 0 && (nearest == 0 || c.us < d.candidates[nearest].us)) {
        nearest = k;
      }
    }
    d.winner = d.candidates[winner].kernel;
    d.decided = true;
    if (winner > 0) {
      d.why = fmt::format("{:.2f} times as fast as the default, noise {:.1f} %", 1 / best, 100 * d.candidates[winner].noise);
    } else if (nearest > 0) {
      d.why = fmt::format("the default; {} comes nearest at {:.2f} times its time, noise {:.1f} %", d.candidates[nearest].kernel,
                          guard::Median(Ratios(open, nearest)), 100 * d.candidates[nearest].noise);
    } else {
      d.why = "the default; no other kernel could run";
    }
    Record(d);
  }

  void Record(const KernelDecision& d) {
    if (o_.records == nullptr) return;
    RecordSet rows;
    rows[o_.records->Key(RecordTable::kChoices, "kernel", d.problem)] = d.winner;
    for (const Candidate& c : d.candidates) {
      if (c.rounds == 0) continue;
      rows[o_.records->Key(RecordTable::kTimings, d.problem, c.kernel)] =
          fmt::format("{{\"us\": {:.3f}, \"noise\": {:.4f}, \"rounds\": {}}}", c.us, c.noise, c.rounds);
    }
    o_.records->SetAll(std::move(rows));
  }

  void Apply() {
    for (const auto& [step, kernel] : Winners()) {
      result_.program.steps[step].kernel = kernel;
      ++result_.changed;
    }
    for (KernelDecision& d : result_.decisions) {
      if (!d.decided) d.why = "the default; there was no time to measure enough";
    }
  }

  // This model with these winners, on shapes like these.
  std::string Combination() const {
    std::string text = ProgramDigest(result_.program);
    for (const KernelDecision& d : result_.decisions) text += "\n" + d.problem;
    return "program " + TextDigest(text);
  }

  // The whole model, with all winners, against the one without.
  Status Prove() {
    TENON_ASSIGN_OR_RETURN(const auto tuned, Contender::Enter(program_, Winners(), o_.session));
    TENON_ASSIGN_OR_RETURN(const auto before, default_->session().Run(sample_.inputs, run_));
    TENON_ASSIGN_OR_RETURN(const auto after, tuned->session().Run(sample_.inputs, run_));
    const double difference = Difference(before, after);
    // Sums are taken in another order; operators in less than f32 round them, too.
    const double bound = AllF32(program_) ? 1e-3 : 2e-2;
    if (!(difference <= bound)) return KeepAs(fmt::format("kept the default kernels: the outputs differ by {:.2g}", difference));
    const std::string combination = Combination();
    std::optional<std::string> verdict;
    if (o_.records != nullptr) verdict = o_.records->Find(RecordTable::kChoices, "model", combination);
    if (!verdict) {
      TENON_ASSIGN_OR_RETURN(const std::string measured, Race(*tuned));
      verdict = measured;
      if (o_.records != nullptr) o_.records->Set(RecordTable::kChoices, "model", combination, measured);
    }
    if (*verdict != "faster") return KeepAs("kept the default kernels: the whole model gains nothing");
    result_.accepted = true;
    result_.verdict = fmt::format("{} operators have another kernel", result_.changed);
    if (result_.before_us > 0) result_.verdict += fmt::format(", {:.3f} times as fast", result_.before_us / result_.after_us);
    return Status::Ok();
  }

  Result<std::string> Race(Contender& tuned) {
    if (o_.progress) o_.progress("the whole model", 0, 1);
    const std::vector<size_t> samples{sample_index_};
    TENON_ASSIGN_OR_RETURN(const guard::Duel duel,
                           guard::Race(default_->session(), tuned.session(), data_, samples, kRaceRounds, run_));
    result_.before_us = duel.first_us;
    result_.after_us = duel.second_us;
    return std::string(duel.second_is_faster() ? "faster" : "not faster");
  }

  Status KeepAs(std::string verdict) {
    result_.program = program_;
    result_.changed = 0;
    result_.accepted = false;
    result_.verdict = std::move(verdict);
    return Status::Ok();
  }
  KernelTuning Keep(std::string verdict) {
    (void)KeepAs(std::move(verdict));
    return std::move(result_);
  }

  const artifact::Program& program_;
  guard::DataSet& data_;
  size_t sample_index_;
  const KernelTuningOptions& o_;
  RunOptions run_;
  guard::Sample sample_;
  std::unique_ptr<Contender> default_;
  double run_us_ = 0;
  std::vector<Open> open_;   // problems still to be decided
  KernelTuning result_;
};

}  // namespace

Result<KernelTuning> ChooseKernels(const artifact::Program& program, guard::DataSet& data, size_t sample,
                                   const KernelTuningOptions& options) {
  return Tuner(program, data, sample, options).Run();
}

}  // namespace tenon::tune
