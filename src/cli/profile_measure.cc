// The runs of `tenon profile`: one that looks at every operator closely, then measured ones that note two times for each, with
// plain ones and, where there are hardware counters, counting ones in between.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>

#include "cli/profile_report.h"

namespace tenon::cli {

namespace {

constexpr int kWarmUps = 3;
constexpr size_t kKeptRuns = 3;
constexpr int kMostCountingRuns = 10;

double NowUs() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of this thread alone.
double CpuUs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

// What ran, in order: the rows of a report, and which row each call belongs to.
class Describer final : public StepObserver {
 public:
  bool WantsDetails() const override { return true; }
  bool WantsControl() const override { return true; }
  void OnStep(const StepRecord& r) override {
    auto [it, fresh] = index_.emplace(std::pair(r.step, r.shapes), rows.size());
    if (fresh) {
      rows.emplace_back();
      ProfileRow& row = rows.back();
      row.name = r.name, row.op = r.op, row.kernel = r.kernel, row.shapes = r.shapes;
      row.details = *r.details;
    }
    sequence.emplace_back(r.step, it->second);
  }

  std::vector<ProfileRow> rows;
  std::vector<std::pair<const void*, size_t>> sequence;

 private:
  std::map<std::pair<const void*, std::string>, size_t> index_;
};

// Follows the sequence of the described run; where a run takes another way (random branches), by operator alone.
class Follower {
 public:
  explicit Follower(const std::vector<std::pair<const void*, size_t>>& sequence) : sequence_(sequence) {
    for (const auto& [step, row] : sequence) rows_.emplace(step, row);
  }
  void Begin() { next_ = 0; }
  /// kNowhere for an operator that the described run never reached.
  size_t RowOf(const void* step) {
    const size_t at = next_++;
    if (at < sequence_.size() && sequence_[at].first == step) return sequence_[at].second;
    return ByStep(step);
  }
  /// Without regard to the sequence.
  size_t ByStep(const void* step) const {
    auto it = rows_.find(step);
    return it == rows_.end() ? kNowhere : it->second;
  }
  static constexpr size_t kNowhere = ~size_t{0};

 private:
  const std::vector<std::pair<const void*, size_t>>& sequence_;
  std::map<const void*, size_t> rows_;
  size_t next_ = 0;
};

class Timer final : public StepObserver {
 public:
  struct Note {
    const void* step;
    uint64_t start_ns, duration_ns;
  };
  bool WantsShapes() const override { return false; }
  bool WantsControl() const override { return true; }
  void OnStep(const StepRecord& r) override { notes.push_back({r.step, r.start_ns, r.duration_ns}); }
  std::vector<Note> notes;
};

class CountingObserver final : public StepObserver {
 public:
  explicit CountingObserver(const hw::Counters& counters) : counters_(counters) {}
  bool WantsShapes() const override { return false; }
  void BeforeStep() override { before_ = counters_.Read(); }
  void OnStep(const StepRecord& r) override {
    const hw::Counts after = counters_.Read();
    hw::Counts difference;
    for (size_t i = 0; i < hw::kEvents; ++i) difference[i] = after[i] < 0 ? -1 : after[i] - before_[i];
    notes.emplace_back(r.step, difference);
  }
  std::vector<std::pair<const void*, hw::Counts>> notes;

 private:
  const hw::Counters& counters_;
  hw::Counts before_{};
};

// Time of each note without what lies within it: the operators of a body end before the node that holds it.
std::vector<double> OwnTimes(const std::vector<Timer::Note>& notes) {
  std::vector<double> own;
  std::vector<const Timer::Note*> before;   // that no later note has been found to hold
  for (const Timer::Note& n : notes) {
    uint64_t inner = 0;
    for (; !before.empty() && before.back()->start_ns >= n.start_ns; before.pop_back()) inner += before.back()->duration_ns;
    own.push_back(static_cast<double>(n.duration_ns - std::min(inner, n.duration_ns)) / 1e3);
    before.push_back(&n);
  }
  return own;
}

void AddCall(ProfileRow* row, double us) {
  row->min_us = row->calls == 0 ? us : std::min(row->min_us, us);
  row->max_us = std::max(row->max_us, us);
  row->total_us += us;
  ++row->calls;
}

void Sum(const std::vector<Timer::Note>& notes, double run_start, double run_us, Follower* follower, ProfileReport* report) {
  ProfileRun run{run_start, run_us, {}};
  std::vector<bool> seen(report->rows.size(), false);
  const std::vector<double> own = OwnTimes(notes);
  double end = run_start;
  follower->Begin();
  for (size_t i = 0; i < notes.size(); ++i) {
    const double start = static_cast<double>(notes[i].start_ns) / 1e3, us = static_cast<double>(notes[i].duration_ns) / 1e3;
    report->steps_us += own[i];
    const size_t index = follower->RowOf(notes[i].step);
    if (index != Follower::kNowhere) {
      ProfileRow& row = report->rows[index];
      AddCall(&row, own[i]);
      row.wait_us += std::max(0.0, start - end);
      if (!seen[index]) row.start_us = start - run_start;
      seen[index] = true;
      run.events.push_back({index, start, us});
    }
    end = start + us;
  }
  report->run_us += run_us;
  report->last.push_back(std::move(run));
  if (report->last.size() > kKeptRuns) report->last.pop_front();
}

void SumCounts(const CountingObserver& observer, const Follower& follower, std::vector<std::pair<hw::Counts, size_t>>* sums) {
  for (const auto& [step, counts] : observer.notes) {
    const size_t index = follower.ByStep(step);
    if (index == Follower::kNowhere) continue;
    auto& [sum, calls] = (*sums)[index];
    for (size_t i = 0; i < hw::kEvents; ++i) sum[i] = counts[i] < 0 || sum[i] < 0 ? -1 : sum[i] + counts[i];
    ++calls;
  }
}

void AddRoofs(hw::IsaMask isa, ProfileReport* report) {
  for (ProfileRow& row : report->rows) {
    const StepDetails& d = row.details;
    const double flops = report->peaks.Flops(d.product == DType::kUndefined ? DType::kF32 : d.product, isa, report->threads);
    const double bandwidth = report->peaks.Bandwidth(d.bytes, report->threads);
    const double compute = flops > 0 ? d.flops / flops * 1e6 : 0, memory = bandwidth > 0 ? d.bytes / bandwidth * 1e6 : 0;
    row.compute_bound = compute > memory;
    row.roof_us = std::max(compute, memory);
  }
}

void AddRefusals(const Session& session, ProfileReport* report) {
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<std::string, std::string>>> refused;
  for (KernelReport& k : session.kernels()) refused.emplace(std::pair(k.node, k.op), std::move(k.refused));
  for (ProfileRow& row : report->rows) {
    auto it = refused.find({row.name, row.op});
    if (it != refused.end()) row.refused = it->second;
  }
}

void AddTypes(ProfileReport* report) {
  std::map<std::pair<std::string, std::string>, ProfileType> types;
  for (const ProfileRow& row : report->rows) {
    if (row.calls == 0) continue;
    ProfileType& t = types[{row.op, row.kernel}];
    const auto calls = static_cast<double>(row.calls);
    t.op = row.op, t.kernel = row.kernel;
    t.min_us = t.calls == 0 ? row.min_us : std::min(t.min_us, row.min_us);
    t.max_us = std::max(t.max_us, row.max_us);
    t.calls += row.calls, t.total_us += row.total_us;
    t.flops += calls * row.details.flops, t.bytes += calls * row.details.bytes, t.roof_us += calls * row.roof_us;
  }
  for (auto& [key, type] : types) report->types.push_back(std::move(type));
  std::stable_sort(report->types.begin(), report->types.end(),
                   [](const ProfileType& a, const ProfileType& b) { return a.total_us > b.total_us; });
}

}  // namespace

Result<ProfileReport> MeasureProfile(Session* session, const std::vector<HostTensor>& inputs, int runs, hw::IsaMask isa,
                                     const hw::Peaks& peaks, const hw::Counters& counters, const CancelToken& cancel) {
  RunOptions run;
  run.cancel = &cancel;
  const auto timed = [&](StepObserver* observer) -> Result<std::pair<double, double>> {
    run.observer = observer;
    const double start = NowUs();
    TENON_RETURN_IF_ERROR(session->Run(inputs, run).status());
    return std::pair(start, NowUs() - start);
  };
  for (int i = 0; i < kWarmUps; ++i) TENON_RETURN_IF_ERROR(timed(nullptr).status());
  Describer described;
  TENON_RETURN_IF_ERROR(timed(&described).status());

  ProfileReport report;
  report.threads = session->threads();
  report.runs = runs;
  report.peaks = peaks;
  report.rows = std::move(described.rows);
  Follower follower(described.sequence);
  Timer timer;
  timer.notes.reserve(2 * described.sequence.size());
  std::vector<std::pair<hw::Counts, size_t>> sums(report.rows.size(), {{0, 0, 0}, 0});
  double cpu_us = 0;
  for (int i = 0; i < runs; ++i) {
    TENON_ASSIGN_OR_RETURN(const auto plain, timed(nullptr));
    report.plain_us += plain.second;
    timer.notes.clear();
    const double cpu = CpuUs();
    TENON_ASSIGN_OR_RETURN(const auto observed, timed(&timer));
    cpu_us += CpuUs() - cpu;
    Sum(timer.notes, observed.first, observed.second, &follower, &report);
    if (!counters.available() || i >= kMostCountingRuns) continue;
    CountingObserver counting(counters);
    TENON_RETURN_IF_ERROR(timed(&counting).status());
    SumCounts(counting, follower, &sums);
  }
  report.cpu_share = std::min(1.0, cpu_us / report.run_us);
  report.run_us /= runs, report.steps_us /= runs, report.plain_us /= runs;
  report.counted = counters.available();
  report.counters_note = counters.why();
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t e = 0; e < hw::kEvents; ++e) {
      if (sums[i].second > 0 && sums[i].first[e] >= 0)
        report.rows[i].counts[e] = sums[i].first[e] / static_cast<double>(sums[i].second);
    }
  }
  AddRoofs(isa, &report);
  AddRefusals(*session, &report);
  AddTypes(&report);
  return report;
}

}  // namespace tenon::cli
