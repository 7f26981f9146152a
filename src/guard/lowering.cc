#include "guard/lowering.h"

#include <chrono>
#include <cmath>
#include <optional>

#include "base/digest.h"
#include "guard/lowering_report.h"
#include "guard/ranges.h"
#include "guard/statistics.h"
#include "runtime/open.h"

namespace tenon::guard {
namespace {

using Clock = std::chrono::steady_clock;
using Levels = std::vector<DType>;   // per node: kF32, kBF16 or kI8

constexpr size_t kTimedSamples = 3;
constexpr size_t kMaxRangeSamples = 64;
constexpr int kTimedRounds = 7;
constexpr int kRaceRounds = 15;
constexpr int kMostRaceRounds = 120;
constexpr size_t kMaxAgain = 12;           // nodes that are lowered once more
constexpr double kAloneShare = 0.5;        // of the budget, for lowering nodes alone
constexpr size_t kMinAloneSamples = 4;

// What is known of a node in one precision.
struct Level {
  bool possible = false;
  double us = 0;
  bool alone_known = false;
  double alone_error = 0;
  double alone_drop = 0;
};

// Takes a node down to a higher precision.
struct Move {
  size_t node;
  DType to;
  double harm;   // of staying: error for what is gained
};

class Search {
 public:
  Search(const compile::Variants& variants, DataSet& data, const LoweringOptions& options)
      : variants_(variants), data_(data), o_(options), policy_(options.policy), start_(Clock::now()) {}

  Result<LoweringResult> Run() {
    TENON_RETURN_IF_ERROR(Begin());
    if (result_.nodes.empty()) return Keep("nothing to lower: no operator has a kernel of less than f32");
    Levels levels = top_;
    TENON_ASSIGN_OR_RETURN(const Drop all, Judge(levels, o_.split.deciding, "everything lowered"));
    if (!Within(all, o_.max_drop)) {
      rows_to_tell_ = RowsToTell(all, o_.max_drop);
      TENON_RETURN_IF_ERROR(LowerEachAlone());
      TENON_ASSIGN_OR_RETURN(levels, LeastGivenBack());
      TENON_RETURN_IF_ERROR(LowerAgain(&levels));
    }
    return Settle(std::move(levels));
  }

 private:
  struct Opened {
    compile::Variant variant;
    std::unique_ptr<Session> session;
  };

  bool Stopped() const {
    if (o_.run.cancel != nullptr && o_.run.cancel->cancelled()) return true;
    return Elapsed() > o_.budget_s;
  }
  double Elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void Say(const std::string& what, size_t done, size_t total) const {
    if (o_.progress) o_.progress(what, done, total);
  }

  Result<Opened> Open(const passes::PrecisionPolicy& policy) const {
    Opened opened;
    TENON_ASSIGN_OR_RETURN(opened.variant, variants_.Make(policy));
    TENON_ASSIGN_OR_RETURN(opened.session, runtime::OpenProgram(opened.variant.program, o_.session));
    return opened;
  }

  passes::PrecisionPolicy PolicyFor(const Levels& levels) const {
    passes::PrecisionPolicy policy = policy_;
    policy.only.emplace();
    for (size_t i = 0; i < levels.size(); ++i) {
      if (levels[i] != DType::kF32) policy.only->emplace(result_.nodes[i].output, levels[i]);
    }
    return policy;
  }

  Result<Evaluation> Score(Session& session, const std::vector<size_t>& samples) {
    return Evaluate(session, data_, samples, o_.metric, references_.get(), {o_.run, {}});
  }

  std::span<const size_t> Timed() const {
    return std::span(o_.split.deciding).first(std::min(kTimedSamples, o_.split.deciding.size()));
  }

  static double At(const std::map<std::string, double>& times, const std::string& name) {
    const auto it = times.find(name);
    return it == times.end() ? 0 : it->second;
  }

  // The f32 model judged and timed; then everything lowered, once for each precision, which tells what can be and what it gains.
  Status Begin() {
    Say("f32 reference", 0, 1);
    TENON_ASSIGN_OR_RETURN(full_, Open(passes::PrecisionPolicy()));
    references_ = std::make_unique<References>(*full_.session, data_);
    TENON_ASSIGN_OR_RETURN(held_out_, Score(*full_.session, o_.split.held_out));
    TENON_ASSIGN_OR_RETURN(full_times_, TimesOf("f32", *full_.session));
    if (policy_.int8 && o_.measures_ranges) {
      const size_t count = std::min(kMaxRangeSamples, o_.split.deciding.size());
      Say("ranges", 0, 1);
      TENON_ASSIGN_OR_RETURN(policy_.ranges,
                             MeasureRanges(*full_.session, data_, std::span(o_.split.deciding).first(count), o_.run));
      AddViews(full_.variant.program, &policy_.ranges);
    }
    passes::PrecisionPolicy one = policy_;
    if (policy_.bf16) {
      one.int8 = false;
      TENON_RETURN_IF_ERROR(AddLevel(one, DType::kBF16));
    }
    if (policy_.int8) {
      one = policy_;
      one.bf16 = false;
      TENON_RETURN_IF_ERROR(AddLevel(one, DType::kI8));
    }
    for (size_t i = 0; i < result_.nodes.size(); ++i) top_.push_back(Fastest(i));
    return Status::Ok();
  }

  Status AddLevel(const passes::PrecisionPolicy& policy, DType precision) {
    Say("what can be lowered", 0, 1);
    TENON_ASSIGN_OR_RETURN(const Opened opened, Open(policy));
    TENON_ASSIGN_OR_RETURN(const Times times, TimesOf(std::string(DTypeName(precision)), *opened.session));
    for (const auto& n : opened.variant.outcome.lowered) {
      const auto [it, fresh] = index_.emplace(n.output, result_.nodes.size());
      if (fresh) {
        NodeChoice choice;
        choice.name = n.name;
        choice.op = n.op;
        choice.output = n.output;
        choice.before_us = At(full_times_.nodes_us, n.name);
        result_.nodes.push_back(choice);
        bf16_.emplace_back();
        int8_.emplace_back();
      }
      result_.nodes[it->second].chosen |= n.white;
      Level& level = LevelOf(it->second, precision);
      level.possible = true;
      level.us = At(times.nodes_us, n.name);
    }
    refused_ = opened.variant.outcome.refused;
    return Status::Ok();
  }

  // What the memory has of `item`, else what `find` finds out, which it then keeps.
  template <typename T, typename FromText, typename Find>
  Result<T> Recalled(const std::string& item, FromText from_text, Find find) {
    if (o_.memory != nullptr) {
      if (const auto text = o_.memory->Recall(item)) {
        if (auto known = from_text(*text)) return *known;
      }
    }
    TENON_ASSIGN_OR_RETURN(T found, find());
    if (o_.memory != nullptr) o_.memory->Keep(item, ToText(found));
    return found;
  }

  Result<Times> TimesOf(const std::string& what, Session& session) {
    return Recalled<Times>("times " + what, TimesFromText,
                           [&] { return Measure(session, data_, Timed(), kTimedRounds, o_.run); });
  }

  // Names a combination.
  std::string Named(const Levels& levels) const {
    std::string text;
    for (size_t i = 0; i < levels.size(); ++i) {
      if (levels[i] != DType::kF32) text += fmt::format("{} {}\n", result_.nodes[i].output, DTypeName(levels[i]));
    }
    return TextDigest(text);
  }

  // What lowering loses on the deciding samples.
  Result<Drop> DecidingDrop(const Levels& levels) {
    return Recalled<Drop>("drop " + Named(levels), DropFromText, [&]() -> Result<Drop> {
      TENON_ASSIGN_OR_RETURN(const Opened opened, Open(PolicyFor(levels)));
      TENON_ASSIGN_OR_RETURN(const Evaluation e, Score(*opened.session, o_.split.deciding));
      if (!deciding_) {
        TENON_ASSIGN_OR_RETURN(deciding_, Score(*full_.session, o_.split.deciding));
      }
      return Compare(*deciding_, e);
    });
  }

  Level& LevelOf(size_t node, DType precision) { return precision == DType::kI8 ? int8_[node] : bf16_[node]; }

  double UsOf(size_t node, DType precision) {
    return precision == DType::kF32 ? result_.nodes[node].before_us : LevelOf(node, precision).us;
  }

  // Integers must beat bf16, which loses less, by a tenth.
  DType Fastest(size_t node) {
    if (!int8_[node].possible) return bf16_[node].possible ? DType::kBF16 : DType::kF32;
    if (bf16_[node].possible && int8_[node].us > 0.9 * bf16_[node].us) return DType::kBF16;
    return DType::kI8;
  }

  double EstimatedUs(const Levels& levels) {
    double us = full_times_.run_us;
    for (size_t i = 0; i < levels.size(); ++i) us -= result_.nodes[i].before_us - UsOf(i, levels[i]);
    return std::max(us, 0.0);
  }

  static size_t CountLowered(const Levels& levels) {
    return levels.size() - static_cast<size_t>(std::count(levels.begin(), levels.end(), DType::kF32));
  }

  Result<Drop> Judge(const Levels& levels, const std::vector<size_t>& samples, const std::string& what) {
    Say(what, 0, 1);
    if (&samples == &o_.split.deciding) {
      TENON_ASSIGN_OR_RETURN(const Drop drop, DecidingDrop(levels));
      result_.trials.push_back(
          {CountLowered(levels), drop.relative, drop.high, Within(drop, o_.max_drop), EstimatedUs(levels), what});
      return drop;
    }
    TENON_ASSIGN_OR_RETURN(const Opened opened, Open(PolicyFor(levels)));
    TENON_ASSIGN_OR_RETURN(const Evaluation e, Score(*opened.session, samples));
    return Compare(held_out_, e);
  }

  // Nodes in the precisions they can have: first those they would have, the most gainful first, since time may run out.
  std::vector<std::pair<size_t, DType>> AloneJobs() {
    std::vector<std::pair<size_t, DType>> jobs;
    for (const DType precision : {DType::kBF16, DType::kI8}) {
      for (size_t i = 0; i < result_.nodes.size(); ++i) {
        if (LevelOf(i, precision).possible) jobs.emplace_back(i, precision);
      }
    }
    const auto rank = [this](const std::pair<size_t, DType>& job) {
      return std::pair(job.second != top_[job.first], -Gain(job.first, DType::kF32));
    };
    std::stable_sort(jobs.begin(), jobs.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    return jobs;
  }

  // How much does each node hurt in each precision it can have? As far as the budget reaches.
  Status LowerEachAlone() {
    const double until = Elapsed() + (o_.budget_s - Elapsed()) * kAloneShare;
    const auto jobs = AloneJobs();
    AloneSamples few;
    for (size_t k = 0; k < jobs.size(); ++k) {
      if (Stopped() || Elapsed() > until) {
        result_.complete = false;
        break;
      }
      Say("each operator alone", k, jobs.size());
      const auto [node, precision] = jobs[k];
      const double seconds = (until - Elapsed()) / static_cast<double>(jobs.size());
      const std::string item = fmt::format("alone {} {}", DTypeName(precision), TextDigest(result_.nodes[node].output));
      TENON_ASSIGN_OR_RETURN(const Alone alone,
                             Recalled<Alone>(item, AloneFromText, [&] { return LowerAlone(node, precision, seconds, &few); }));
      Level& level = LevelOf(node, precision);
      level.alone_known = true;
      level.alone_error = alone.error;
      level.alone_drop = alone.drop;
    }
    return Status::Ok();
  }

  // The samples that operators are lowered alone on, the same for all.
  struct AloneSamples {
    std::vector<size_t> samples;
    Evaluation reference;
  };

  Result<Alone> LowerAlone(size_t node, DType precision, double seconds, AloneSamples* few) {
    passes::PrecisionPolicy policy = policy_;
    policy.only = {{result_.nodes[node].output, precision}};
    policy.isolated = true;
    const double began = Elapsed();
    TENON_ASSIGN_OR_RETURN(const Opened opened, Open(policy));
    if (few->samples.empty()) {
      const double left = seconds - (Elapsed() - began);
      TENON_ASSIGN_OR_RETURN(const double count, Recalled<double>("alone samples", NumberFromText, [&]() -> Result<double> {
                               return static_cast<double>(FittingSamples(left));
                             }));
      const size_t most = o_.split.deciding.size();
      const auto n = static_cast<std::ptrdiff_t>(std::clamp(count, 1.0, static_cast<double>(most)));
      few->samples.assign(o_.split.deciding.begin(), o_.split.deciding.begin() + n);
      TENON_ASSIGN_OR_RETURN(few->reference, Score(*full_.session, few->samples));
    }
    TENON_ASSIGN_OR_RETURN(const Assessment a, Assess(*opened.session, data_, few->samples, o_.metric, *references_, o_.run));
    TENON_ASSIGN_OR_RETURN(const Drop drop, Compare(few->reference, a.evaluation));
    return Alone{a.error, drop.relative};
  }

  // As many deciding samples as a run of each takes `seconds`.
  size_t FittingSamples(double seconds) const {
    const double each = std::max(full_times_.run_us / 1e6, 1e-6);
    const auto fitting = static_cast<size_t>(std::clamp(seconds / each, 0.0, 1e9));
    return std::min(std::max(fitting, kMinAloneSamples), o_.split.deciding.size());
  }

  // What is assumed of nodes that the budget did not reach: the median of those it did, or 1.
  double UsualAloneError() {
    std::vector<double> errors;
    for (size_t i = 0; i < top_.size(); ++i) {
      if (top_[i] != DType::kF32 && LevelOf(i, top_[i]).alone_known) errors.push_back(LevelOf(i, top_[i]).alone_error);
    }
    return errors.empty() ? 1 : Median(std::move(errors));
  }

  // What is done first when too much is lost: most error for the least gain. A small gain is lent to each, so that operators
  // between others, whose gain is the casts they save, are not given back for nothing.
  std::vector<Move> Moves() {
    const double lent = 0.02 * full_times_.run_us / static_cast<double>(result_.nodes.size());
    const double usual = UsualAloneError();
    const auto harm = [&](const Level& from, const Level* to, double to_us) {
      const double error = from.alone_known ? from.alone_error : usual;
      const double rest = to != nullptr && to->alone_known ? to->alone_error * to->alone_error : 0;
      return std::max(error * error - rest, 0.0) / (std::max(to_us - from.us, 0.0) + lent);
    };
    std::vector<Move> moves;
    for (size_t i = 0; i < top_.size(); ++i) {
      const double full_us = result_.nodes[i].before_us;
      if (top_[i] == DType::kI8 && bf16_[i].possible) moves.push_back({i, DType::kBF16, harm(int8_[i], &bf16_[i], bf16_[i].us)});
      const Level& last = bf16_[i].possible ? bf16_[i] : int8_[i];
      if (top_[i] != DType::kF32) moves.push_back({i, DType::kF32, harm(last, nullptr, full_us)});
    }
    std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.harm > b.harm; });
    return moves;
  }

  // `levels` after the first `count` moves.
  static Levels After(Levels levels, std::span<const Move> moves) {
    for (const Move& m : moves) {
      if (levels[m.node] == DType::kI8 || m.to == DType::kF32) levels[m.node] = m.to;
    }
    return levels;
  }

  // The fewest moves that keep the deciding samples within the allowance, by bisection.
  Result<Levels> LeastGivenBack() {
    const std::vector<Move> moves = Moves();
    size_t bad = 0;  // everything lowered was too much
    size_t good = moves.size();  // f32
    while (good - bad > 1 && !Stopped()) {
      const size_t middle = bad + (good - bad) / 2;
      const Levels levels = After(top_, std::span(moves).first(middle));
      TENON_ASSIGN_OR_RETURN(const Drop drop, Judge(levels, o_.split.deciding, fmt::format("{} steps given back", middle)));
      (Within(drop, o_.max_drop) ? good : bad) = middle;
    }
    if (Stopped()) result_.complete = false;
    return After(top_, std::span(moves).first(good));
  }

  double Gain(size_t node, DType from) { return UsOf(node, from) - UsOf(node, top_[node]); }

  // Those given back that gain most are tried once more, one by one.
  Status LowerAgain(Levels* levels) {
    std::vector<size_t> wish;
    for (size_t i = 0; i < levels->size(); ++i) {
      const bool worth = (*levels)[i] != top_[i] && Gain(i, (*levels)[i]) > 0.005 * full_times_.run_us;
      if (worth && LevelOf(i, top_[i]).alone_known) wish.push_back(i);
    }
    std::stable_sort(wish.begin(), wish.end(), [&](size_t a, size_t b) { return Gain(a, (*levels)[a]) > Gain(b, (*levels)[b]); });
    for (size_t k = 0; k < std::min(wish.size(), kMaxAgain) && !Stopped(); ++k) {
      Levels trial = *levels;
      trial[wish[k]] = top_[wish[k]];
      TENON_ASSIGN_OR_RETURN(const Drop drop, Judge(trial, o_.split.deciding, "once more: " + result_.nodes[wish[k]].name));
      if (Within(drop, o_.max_drop)) *levels = std::move(trial);
    }
    return Status::Ok();
  }

  // Judged on samples that had no say. While it falls short the most harmful of what is lowered goes back, each time more at
  // once.
  Result<LoweringResult> Settle(Levels levels) {
    size_t step = 1;
    std::optional<Drop> first;
    while (CountLowered(levels) > 0) {
      TENON_ASSIGN_OR_RETURN(const Drop drop, Judge(levels, o_.split.held_out, "held-out samples"));
      if (Within(drop, o_.max_drop)) return Accept(levels, drop);
      if (!first) first = drop;
      const bool known = std::any_of(bf16_.begin(), bf16_.end(), [](const Level& l) { return l.alone_known; }) ||
                         std::any_of(int8_.begin(), int8_.end(), [](const Level& l) { return l.alone_known; });
      if (!known && !Stopped()) TENON_RETURN_IF_ERROR(LowerEachAlone());
      if (Stopped()) break;
      size_t done = 0;
      for (const Move& m : Moves()) {
        const Levels next = After(levels, {&m, 1});
        if (done == step) break;
        done += next != levels ? 1 : 0;
        levels = next;
      }
      step *= 2;
    }
    result_.refused = true;
    if (!first) return Keep("kept f32: no combination stays within the allowed drop");
    result_.held_out = *first;
    return Keep(fmt::format("kept f32: {}{}", Fell(*first, o_.max_drop), MoreSamples(RowsToTell(*first, o_.max_drop))));
  }

  Result<LoweringResult> Accept(const Levels& levels, const Drop& held_out) {
    TENON_ASSIGN_OR_RETURN(Opened opened, Open(PolicyFor(levels)));
    Say("f32 against lowered", 0, 1);
    TENON_ASSIGN_OR_RETURN(const Duel duel,
                           Recalled<Duel>("race " + Named(levels), DuelFromText, [&] { return DecisiveRace(*opened.session); }));
    result_.before_us = duel.first_us;
    result_.after_us = duel.second_us;
    result_.noise = duel.noise;
    result_.held_out = held_out;
    if (o_.must_be_faster && !duel.second_is_faster())
      return Keep(
          fmt::format("kept f32: what may be lowered is not faster ({:.2f} of the time, +-{:.2f})", duel.ratio, duel.noise));
    TENON_ASSIGN_OR_RETURN(result_.deciding, DecidingDrop(levels));
    TENON_ASSIGN_OR_RETURN(const Times times, TimesOf(Named(levels), *opened.session));
    for (const auto& n : opened.variant.outcome.lowered) {
      NodeChoice& choice = result_.nodes[index_.at(n.output)];
      choice.lowered = true;
      choice.precision = n.precision;
      choice.after_us = At(times.nodes_us, n.name);
    }
    FillAlone();
    const size_t chosen = static_cast<size_t>(
        std::count_if(result_.nodes.begin(), result_.nodes.end(), [](const NodeChoice& n) { return n.lowered && n.chosen; }));
    result_.lowered = true;
    result_.verdict = fmt::format("{} operators lowered ({} for their own sake); {}{}", opened.variant.outcome.lowered.size(),
                                  chosen, Fell(held_out, o_.max_drop), MoreSamples(rows_to_tell_));
    result_.variant = std::move(opened.variant);
    result_.variant.outcome.refused = refused_;
    return std::move(result_);
  }

  // Longer on a busy machine, as far as time allows.
  Result<Duel> DecisiveRace(Session& lowered) const {
    for (int rounds = kRaceRounds;; rounds *= 2) {
      TENON_ASSIGN_OR_RETURN(const Duel duel, Race(*full_.session, lowered, data_, Timed(), rounds, o_.run));
      if (duel.decided() || rounds * 2 > kMostRaceRounds || Stopped()) return duel;
    }
  }

  // What lowering a node alone did: in its precision, or for those kept in the lowest they could have.
  void FillAlone() {
    for (size_t i = 0; i < result_.nodes.size(); ++i) {
      NodeChoice& n = result_.nodes[i];
      const DType precision = n.lowered ? n.precision : top_[i];
      if (precision == DType::kF32) continue;
      const Level& level = LevelOf(i, precision);
      n.alone_known = level.alone_known;
      n.alone_error = level.alone_error;
      n.alone_drop = level.alone_drop;
    }
  }

  Result<LoweringResult> Keep(std::string verdict) {
    if (result_.before_us == 0) result_.before_us = result_.after_us = full_times_.run_us;
    FillAlone();
    result_.lowered = false;
    result_.variant = std::move(full_.variant);
    result_.variant.outcome.refused = refused_;
    result_.verdict = std::move(verdict);
    return std::move(result_);
  }

  const compile::Variants& variants_;
  DataSet& data_;
  const LoweringOptions& o_;
  passes::PrecisionPolicy policy_;
  Clock::time_point start_;
  Opened full_;
  Times full_times_;
  std::unique_ptr<References> references_;
  std::optional<Evaluation> deciding_;  // when first asked for
  Evaluation held_out_;
  std::vector<passes::PrecisionOutcome::Refusal> refused_;  // in the lowest precision that is allowed
  std::map<std::string, size_t> index_;  // output -> node
  size_t rows_to_tell_ = 0;  // about as many might show that everything may be lowered
  std::vector<Level> bf16_;  // by node
  std::vector<Level> int8_;
  Levels top_;  // the fastest each node can have
  LoweringResult result_;
};

}  // namespace

Result<LoweringResult> ChooseLowering(const compile::Variants& variants, DataSet& data, const LoweringOptions& options) {
  return Search(variants, data, options).Run();
}

}  // namespace tenon::guard
