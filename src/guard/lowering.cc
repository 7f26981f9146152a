#include "guard/lowering.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "runtime/open.h"

namespace tenon::guard {
namespace {

using Clock = std::chrono::steady_clock;
using Names = std::set<std::string, std::less<>>;

constexpr size_t kTimedSamples = 3;
constexpr int kTimedRounds = 7;
constexpr int kRaceRounds = 15;
constexpr size_t kMaxAgain = 12;           // nodes that are tried in low precision once more
constexpr double kAloneShare = 0.5;        // of the budget, for lowering nodes alone
constexpr size_t kMinAloneSamples = 4;

class Search {
 public:
  Search(const compile::Variants& variants, DataSet& data, const LoweringOptions& options)
      : variants_(variants), data_(data), o_(options), start_(Clock::now()) {}

  Result<LoweringResult> Run() {
    TENON_RETURN_IF_ERROR(Begin());
    if (result_.nodes.empty()) return Keep("nothing to lower: no operator has a kernel of less than f32");
    order_.resize(result_.nodes.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    TENON_ASSIGN_OR_RETURN(const Drop all, Judge(Lowered(0), o_.split.deciding, "everything lowered"));
    size_t back = 0;   // the first `back` nodes of order_ are f32
    if (all.relative > o_.max_drop) {
      TENON_RETURN_IF_ERROR(LowerEachAlone());
      TENON_ASSIGN_OR_RETURN(back, LeastGivenBack());
      TENON_RETURN_IF_ERROR(LowerAgain(back));
    }
    return Settle(back);
  }

 private:
  struct Opened {
    compile::Variant variant;
    std::unique_ptr<Session> session;
  };

  bool Stopped() const {
    if (o_.run.cancel != nullptr && o_.run.cancel->cancelled()) return true;
    return std::chrono::duration<double>(Clock::now() - start_).count() > o_.budget_s;
  }
  double Elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void Say(const std::string& what, size_t done, size_t total) const {
    if (o_.progress) o_.progress(what, done, total);
  }

  Result<Opened> Open(const passes::PrecisionPolicy& policy) const {
    Opened opened;
    TENON_ASSIGN_OR_RETURN(opened.variant, variants_.Make(policy));
    artifact::Artifact artifact;
    artifact.program = opened.variant.program;
    TENON_ASSIGN_OR_RETURN(opened.session, runtime::OpenArtifact(std::move(artifact), o_.session));
    return opened;
  }

  passes::PrecisionPolicy Only(Names names) const {
    passes::PrecisionPolicy policy = variants_.policy();
    policy.only = std::move(names);
    return policy;
  }

  // All but the first `back` nodes of order_, and those tried again with success.
  Names Lowered(size_t back) const {
    Names names;
    for (size_t i = back; i < order_.size(); ++i) names.insert(result_.nodes[order_[i]].output);
    for (size_t i = 0; i < back; ++i) {
      if (again_.contains(order_[i])) names.insert(result_.nodes[order_[i]].output);
    }
    return names;
  }

  Status Begin() {
    Say("f32 reference", 0, 1);
    TENON_ASSIGN_OR_RETURN(full_, Open(passes::PrecisionPolicy()));
    references_ = std::make_unique<References>(*full_.session, data_);
    TENON_ASSIGN_OR_RETURN(deciding_,
                           Evaluate(*full_.session, data_, o_.split.deciding, o_.metric, references_.get(), {o_.run, {}}));
    TENON_ASSIGN_OR_RETURN(held_out_,
                           Evaluate(*full_.session, data_, o_.split.held_out, o_.metric, references_.get(), {o_.run, {}}));
    TENON_ASSIGN_OR_RETURN(const Times before, Measure(*full_.session, data_, Timed(), kTimedRounds, o_.run));
    before_us_ = before.run_us;
    TENON_ASSIGN_OR_RETURN(const Opened all, Open(variants_.policy()));
    TENON_ASSIGN_OR_RETURN(const Times after, Measure(*all.session, data_, Timed(), kTimedRounds, o_.run));
    for (const auto& n : all.variant.outcome.lowered) {
      NodeChoice choice;
      choice.name = n.name;
      choice.op = n.op;
      choice.output = n.output;
      choice.chosen = n.white;
      choice.precision = n.precision;
      choice.before_us = At(before.nodes_us, n.name);
      choice.after_us = At(after.nodes_us, n.name);
      result_.nodes.push_back(choice);
    }
    return Status::Ok();
  }

  std::span<const size_t> Timed() const {
    return std::span(o_.split.deciding).first(std::min(kTimedSamples, o_.split.deciding.size()));
  }

  static double At(const std::map<std::string, double>& times, const std::string& name) {
    const auto it = times.find(name);
    return it == times.end() ? 0 : it->second;
  }

  double EstimatedUs(const Names& names) const {
    double us = before_us_;
    for (const NodeChoice& n : result_.nodes) us -= names.contains(n.output) ? n.before_us - n.after_us : 0;
    return us;
  }

  Result<Drop> Judge(const Names& names, const std::vector<size_t>& samples, const std::string& what) {
    Say(what, 0, 1);
    TENON_ASSIGN_OR_RETURN(const Opened opened, Open(Only(names)));
    TENON_ASSIGN_OR_RETURN(const Evaluation e,
                           Evaluate(*opened.session, data_, samples, o_.metric, references_.get(), {o_.run, {}}));
    const bool deciding = &samples == &o_.split.deciding;
    TENON_ASSIGN_OR_RETURN(const Drop drop, Compare(deciding ? deciding_ : held_out_, e));
    if (deciding) result_.trials.push_back({names.size(), drop.relative, EstimatedUs(names), what});
    return drop;
  }

  // How much does each node hurt? Nodes that the budget does not reach count as the worst.
  Status LowerEachAlone() {
    const double until = Elapsed() + (o_.budget_s - Elapsed()) * kAloneShare;
    std::vector<size_t> samples = o_.split.deciding;
    std::optional<Evaluation> reference;
    for (size_t i = 0; i < result_.nodes.size(); ++i) {
      if (Stopped() || Elapsed() > until) {
        result_.complete = false;
        break;
      }
      NodeChoice& n = result_.nodes[i];
      Say("each operator alone", i, result_.nodes.size());
      passes::PrecisionPolicy policy = Only({n.output});
      policy.isolated = true;
      const double began = Elapsed();
      TENON_ASSIGN_OR_RETURN(const Opened opened, Open(policy));
      const double made = Elapsed();
      if (!reference) {
        TENON_ASSIGN_OR_RETURN(samples, FittingSamples(until, made - began));
        TENON_ASSIGN_OR_RETURN(reference, Evaluate(*full_.session, data_, samples, o_.metric, references_.get(), {o_.run, {}}));
      }
      TENON_ASSIGN_OR_RETURN(const Assessment a, Assess(*opened.session, data_, samples, o_.metric, *references_, o_.run));
      TENON_ASSIGN_OR_RETURN(const Drop drop, Compare(*reference, a.evaluation));
      n.alone_known = true;
      n.alone_error = a.error;
      n.alone_drop = drop.relative;
    }
    SortByHarm();
    return Status::Ok();
  }

  // As many deciding samples as leave time for every node.
  Result<std::vector<size_t>> FittingSamples(double until, double make_s) const {
    const double each = std::max(before_us_ / 1e6, 1e-6);
    const double left = (until - Elapsed()) / static_cast<double>(result_.nodes.size()) - make_s;
    const auto fitting = static_cast<size_t>(std::clamp(left / each, 0.0, 1e9));
    const size_t count = std::min(std::max(fitting, kMinAloneSamples), o_.split.deciding.size());
    return std::vector<size_t>(o_.split.deciding.begin(), o_.split.deciding.begin() + static_cast<std::ptrdiff_t>(count));
  }

  // What goes back to f32 first: most error for the least gain. A small gain is lent to each, so that operators between others,
  // whose gain is the casts they save, are not given back for nothing.
  void SortByHarm() {
    const double lent = 0.02 * before_us_ / static_cast<double>(result_.nodes.size());
    const auto harm = [&](size_t i) {
      const NodeChoice& n = result_.nodes[i];
      if (!n.alone_known) return std::numeric_limits<double>::infinity();
      return n.alone_error * n.alone_error / (std::max(n.before_us - n.after_us, 0.0) + lent);
    };
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return harm(a) > harm(b); });
  }

  // The smallest number of nodes to give back that keeps the deciding samples within the allowance, by bisection.
  Result<size_t> LeastGivenBack() {
    size_t bad = 0;  // everything lowered was too much
    size_t good = order_.size();  // f32
    while (good - bad > 1 && !Stopped()) {
      const size_t middle = bad + (good - bad) / 2;
      TENON_ASSIGN_OR_RETURN(const Drop drop, Judge(Lowered(middle), o_.split.deciding, fmt::format("{} given back", middle)));
      (drop.relative <= o_.max_drop ? good : bad) = middle;
    }
    if (Stopped()) result_.complete = false;
    return good;
  }

  // Those given back that gain most are tried once more, one by one.
  Status LowerAgain(size_t back) {
    std::vector<size_t> wish(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(back));
    std::stable_sort(wish.begin(), wish.end(), [&](size_t a, size_t b) { return Gain(a) > Gain(b); });
    // The worst one is what the allowance was exceeded by.
    size_t tried = 0;
    for (size_t i : wish) {
      if (Stopped() || tried == kMaxAgain) break;
      if (Gain(i) <= 0.005 * before_us_ || !result_.nodes[i].alone_known) continue;
      ++tried;
      again_.insert(i);
      TENON_ASSIGN_OR_RETURN(const Drop drop, Judge(Lowered(back), o_.split.deciding, "once more: " + result_.nodes[i].name));
      if (drop.relative > o_.max_drop) again_.erase(i);
    }
    return Status::Ok();
  }

  double Gain(size_t i) const { return result_.nodes[i].before_us - result_.nodes[i].after_us; }

  // Judged on samples that had no say. While it falls short the most harmful of what is lowered goes back, each time more at
  // once.
  Result<LoweringResult> Settle(size_t back) {
    Names names = Lowered(back);
    size_t step = 1;
    std::optional<Drop> first;
    while (!names.empty()) {
      TENON_ASSIGN_OR_RETURN(const Drop drop, Judge(names, o_.split.held_out, "held-out samples"));
      if (drop.relative <= o_.max_drop) return Accept(names, drop);
      if (!first) first = drop;
      if (!result_.nodes[order_[0]].alone_known && !Stopped()) TENON_RETURN_IF_ERROR(LowerEachAlone());
      if (Stopped()) break;
      size_t given = 0;
      for (size_t i : order_) given += given < step ? names.erase(result_.nodes[i].output) : 0;
      step *= 2;
    }
    result_.refused = true;
    if (!first) return Keep("kept f32: no combination stays within the allowed drop");
    result_.held_out = *first;
    return Keep(fmt::format("kept f32: on held-out samples {} fell by {:.2f} %, allowed {:.2f} %", o_.metric.name,
                            100 * first->relative, 100 * o_.max_drop));
  }

  Result<LoweringResult> Accept(const Names& names, const Drop& held_out) {
    TENON_ASSIGN_OR_RETURN(Opened opened, Open(Only(names)));
    Say("f32 against lowered", 0, 1);
    TENON_ASSIGN_OR_RETURN(const Duel duel, Race(*full_.session, *opened.session, data_, Timed(), kRaceRounds, o_.run));
    result_.before_us = duel.first_us;
    result_.after_us = duel.second_us;
    result_.noise = duel.noise;
    result_.held_out = held_out;
    if (duel.second_us > duel.first_us * (1 - duel.noise)) return Keep("kept f32: what may be lowered is not faster");
    TENON_ASSIGN_OR_RETURN(const Evaluation e,
                           Evaluate(*opened.session, data_, o_.split.deciding, o_.metric, references_.get(), {o_.run, {}}));
    TENON_ASSIGN_OR_RETURN(result_.deciding, Compare(deciding_, e));
    TENON_ASSIGN_OR_RETURN(const Times times, Measure(*opened.session, data_, Timed(), kTimedRounds, o_.run));
    Names lowered;
    for (const auto& n : opened.variant.outcome.lowered) lowered.insert(n.output);
    size_t chosen = 0;
    for (NodeChoice& n : result_.nodes) {
      n.lowered = lowered.contains(n.output);
      n.after_us = At(times.nodes_us, n.name);
      chosen += n.lowered && n.chosen ? 1 : 0;
    }
    result_.lowered = true;
    result_.refused = false;
    result_.variant = std::move(opened.variant);
    result_.verdict = fmt::format(
        "{} operators lowered ({} for their own sake), {:.2f} times as fast; {} fell by {:.3f} % on held-out samples, allowed "
        "{:.2f} %",
        lowered.size(), chosen, duel.first_us / duel.second_us, o_.metric.name, 100 * held_out.relative, 100 * o_.max_drop);
    return std::move(result_);
  }

  Result<LoweringResult> Keep(std::string verdict) {
    if (result_.before_us == 0) result_.before_us = result_.after_us = before_us_;
    result_.lowered = false;
    result_.variant = std::move(full_.variant);
    result_.verdict = std::move(verdict);
    return std::move(result_);
  }

  const compile::Variants& variants_;
  DataSet& data_;
  const LoweringOptions& o_;
  Clock::time_point start_;
  Opened full_;
  std::unique_ptr<References> references_;
  Evaluation deciding_;
  Evaluation held_out_;
  double before_us_ = 0;
  std::vector<size_t> order_;  // nodes, those to give back first in front
  std::set<size_t> again_;  // of those given back: lowered nevertheless
  LoweringResult result_;
};

}  // namespace

Result<LoweringResult> ChooseLowering(const compile::Variants& variants, DataSet& data, const LoweringOptions& options) {
  return Search(variants, data, options).Run();
}

}  // namespace tenon::guard
