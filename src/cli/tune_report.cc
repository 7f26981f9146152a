#include "cli/tune_report.h"

#include <unistd.h>

#include <cmath>

#include "base/cache_folder.h"
#include "base/mapped_file.h"
#include "cli/machine.h"
#include "guard/assess.h"
#include "guard/lowering_report.h"
#include "hw/quota.h"
#include "runtime/open.h"
#include "tune/op_times.h"
#include "tune/page.h"

namespace tenon::cli {
namespace {

constexpr int kRaceRounds = 31;
constexpr int kOperatorRounds = 11;

int CountAll(const std::map<std::string, int>& ops) {
  int n = 0;
  for (const auto& [op, count] : ops) n += count;
  return n;
}

// What a session holds after a run.
Json MemoryJson(const Session& session) {
  const MemoryReport m = session.memory();
  return {{"weights", m.weights}, {"packed", m.packed}, {"arena", m.arena}, {"charged", m.charged}};
}

Json KernelsJson(const tune::KernelTuning& tuning) {
  Json rows = Json::array();
  for (const tune::KernelDecision& d : tuning.decisions) {
    Json candidates = Json::array();
    double noise = 0;
    for (const tune::Candidate& c : d.candidates) {
      Json row = {{"kernel", c.kernel}, {"us", c.us}, {"noise", c.noise}, {"rounds", c.rounds}};
      if (!c.failure.empty()) row["failure"] = c.failure;
      if (c.kernel == d.winner) noise = c.noise;
      candidates.push_back(std::move(row));
    }
    for (const std::string& node : d.nodes) {
      rows.push_back({{"name", node},
                      {"type", d.op},
                      {"shapes", d.shapes},
                      {"candidates", candidates},
                      {"winner", d.winner},
                      {"noise", noise},
                      {"source", d.recorded  ? "records"
                                 : d.decided ? "measured"
                                             : "default"},
                      {"why", d.why}});
    }
  }
  return {{"changed", tuning.changed},
          {"accepted", tuning.accepted},
          {"complete", tuning.complete},
          {"before_us", tuning.before_us},
          {"after_us", tuning.after_us},
          {"verdict", tuning.verdict},
          {"operators", rows}};
}

Json RecordsJson(const tune::Records& records) {
  return {{"file", records.path()},
          {"found", records.found()},
          {"added", records.added()},
          {"ignored", records.foreign()},
          {"note", records.note()}};
}

double Finite(double v) {
  return std::isfinite(v) ? v : 0;
}

// The curve of drop against time.
Json TrialsJson(const guard::LoweringResult& result) {
  Json rows = Json::array();
  for (const guard::Trial& t : result.trials) {
    const auto finite = [](double v) { return std::isfinite(v) ? Json(v) : Json(); };
    rows.push_back({{"what", t.what},
                    {"lowered", t.lowered},
                    {"drop", finite(t.drop)},
                    {"high", finite(t.high)},
                    {"within", t.within},
                    {"estimated_us", t.estimated_us}});
  }
  return rows;
}

Json OperatorsJson(const std::vector<tune::OpPair>& pairs) {
  Json rows = Json::array();
  for (const tune::OpPair& p : pairs) {
    const bool runs = !p.after.kernel.empty();
    rows.push_back({{"name", p.name},
                    {"type", p.op},
                    {"shapes", runs ? p.after.shapes : p.before.shapes},
                    {"kernel_before", p.before.kernel},
                    {"kernel_after", p.after.kernel},
                    {"before_us", p.before.us},
                    {"noise_before", Finite(p.before.noise)},
                    {"after_us", p.after.us},
                    {"noise_after", Finite(p.after.noise)},
                    {"flops", p.flops},
                    {"bytes", p.bytes},
                    {"roof_us", p.roof_us},
                    {"bound", p.roof_us == 0    ? "-"
                              : p.compute_bound ? "compute"
                                                : "memory"}});
  }
  return rows;
}

// What operators are held against: the best rate for each type, and that of reading memory.
Json RooflineJson(const hw::Peaks& peaks, hw::IsaMask isa, int threads) {
  Json rates = Json::array();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    const hw::Peaks::Arithmetic* best = peaks.Best(dtype, isa);
    if (best != nullptr && best->dtype == dtype)
      rates.push_back({{"name", best->name}, {"flops_per_s", peaks.Flops(dtype, isa, threads)}});
  }
  constexpr double kBeyondCaches = 1e12;
  return {{"threads", threads}, {"bytes_per_s", peaks.Bandwidth(kBeyondCaches, threads)}, {"peaks", rates}};
}

// The report under the names that AOE gives it, for scripts that read those.
Json AoeJson(const TuneJob& job, const Json& document) {
  Json added = Json::array();
  if (document.contains("operators")) {
    for (const Json& row : document["operators"]) {
      const double before = row["before_us"];
      const double after = row["after_us"];
      if (before <= 0 || after <= 0 || row["kernel_before"] == row["kernel_after"]) continue;
      added.push_back({{"op_name", row["name"]},
                       {"op_type", row["type"]},
                       {"performance_before_tune(us)", before},
                       {"performance_after_tune(us)", after},
                       {"performance_improvement", fmt::format("{:.2f}%", 100 * (before - after) / before)}});
    }
  }
  size_t hit = 0, fresh = 0, reserved = 0, total = 0;
  Json failed = Json::array();
  if (job.kernels()) {
    for (const tune::KernelDecision& d : job.kernels()->decisions) {
      hit += d.recorded, fresh += d.decided && !d.recorded, reserved += d.winner == d.candidates[0].kernel, ++total;
      for (const tune::Candidate& c : d.candidates) {
        if (!c.failure.empty())
          failed.push_back({{"op_name", d.nodes[0]}, {"op_type", d.op}, {"reason", c.kernel + ": " + c.failure}});
      }
    }
  }
  Json opat = {{"opat_tune_result", "tune success"},
               {"repo_modified_operators", {{"add_repo_operators", added}}},
               {"repo_summary",
                {{"repo_add_num", fresh},
                 {"repo_hit_num", hit},
                 {"repo_reserved_num", reserved},
                 {"repo_unsatisfied_num", failed.size()},
                 {"repo_update_num", 0},
                 {"total_num", total}}},
               {"tune_failed_operators", failed}};
  const Json basic = {{"tuning_name", job.options().model.model}, {"tuning_time(s)", job.seconds()}};
  return Json::array({{{"basic", basic}}, {{"OPAT", opat}}});
}

Status AddOperators(TuneJob& job, Session& after, int rounds, const RunOptions& run, Json* document) {
  TENON_ASSIGN_OR_RETURN(const hw::IsaMask isa, hw::ActiveIsa());
  const auto folder = CacheFolder(job.options().model.cache_dir == "none" ? "" : job.options().model.cache_dir);
  const hw::Peaks peaks = hw::PeaksOfThisMachine(folder.ok() ? *folder : std::string(), hw::DetectCpuAllowance().threads);
  TENON_ASSIGN_OR_RETURN(const guard::Sample sample, job.data().Load(0));
  TENON_ASSIGN_OR_RETURN(const auto pairs, tune::CompareOps(job.session(), after, sample.inputs, rounds, peaks, isa, run));
  (*document)["operators"] = OperatorsJson(pairs);
  (*document)["roofline"] = RooflineJson(peaks, isa, after.threads());
  return Status::Ok();
}

// Memory and time of both models. What was not changed needs no race.
Status AddMeasures(TuneJob& job, Json* document) {
  if (job.interrupted()) return Status::Ok();
  RunOptions run;
  run.cancel = &Interrupted();
  const std::vector<size_t> sample{0};
  std::unique_ptr<Session> tuned;
  if (job.changed()) {
    TENON_ASSIGN_OR_RETURN(tuned, runtime::OpenProgram(job.program(), job.options().model.session));
  }
  Session& after = tuned != nullptr ? *tuned : job.session();
  TENON_ASSIGN_OR_RETURN(const guard::Duel first, guard::Race(job.session(), after, job.data(), sample, 1, run));
  const double left = std::chrono::duration<double, std::micro>(job.deadline() - std::chrono::steady_clock::now()).count();
  const double fitting = left / std::max(first.first_us + first.second_us, 1.0);
  const int rounds = static_cast<int>(std::clamp<double>(fitting, 3, kRaceRounds));
  TENON_ASSIGN_OR_RETURN(guard::Duel duel, guard::Race(job.session(), after, job.data(), sample, rounds, run));
  if (tuned == nullptr) duel.second_us = duel.first_us, duel.noise = 0;
  (*document)["memory"] = {{"before", MemoryJson(job.session())}, {"after", MemoryJson(after)}};
  (*document)["latency_ms"] = {{"before", duel.first_us / 1e3}, {"after", duel.second_us / 1e3}, {"noise", duel.noise}};
  return AddOperators(job, after, std::clamp(rounds, 3, kOperatorRounds), run, document);
}

}  // namespace

Result<Json> TuneDocument(TuneJob& job) {
  Json document = {{"file", job.options().output},
                   {"model", job.options().model.model},
                   {"machine", MachineJson()},
                   {"threads", job.session().threads()},
                   {"groups", {{"before", job.full().report.imported_ops}, {"after", CountAll(job.variant().report.ops)}}},
                   {"ops", Json::array()},
                   {"data", job.data().Describe()}};
  if (job.graph()) {
    document["drop"] = guard::ToJson(job.graph()->held_out);
    document["ops"] = guard::OpsJson(*job.graph());
    document["guard"] = guard::GuardJson(*job.graph(), job.judging());
    document["trials"] = TrialsJson(*job.graph());
  }
  if (job.kernels()) document["kernels"] = KernelsJson(*job.kernels());
  document["records"] = RecordsJson(job.records());
  const Status measured = AddMeasures(job, &document);
  if (!measured.ok() && measured.code() != Code::kCancelled) return measured;
  TENON_ASSIGN_OR_RETURN(const double budget, ParseDuration(job.options().budget));
  document["complete"] = !job.interrupted() && !job.stopped() && (!job.graph() || job.graph()->complete) &&
                         (!job.kernels() || job.kernels()->complete);
  document["seconds"] = job.seconds();
  document["budget_s"] = budget;
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  document[fmt::format("report_{}_{}", now, getpid())] = AoeJson(job, document);
  return document;
}

Status WriteTuneReports(const TuneOptions& options, const Json& document) {
  for (const std::string& path : options.reports) {
    TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    const std::string text = path.ends_with(".html") ? tune::ReportPage(document) : Dump(document) + "\n";
    TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
    TENON_RETURN_IF_ERROR(file.Commit());
  }
  return Status::Ok();
}

void ShowTuning(const TuneJob& job, const Json& document, const Context& context) {
  if (job.graph()) ShowLowering(*job.graph(), context);
  if (job.kernels()) context.Say("kernels: " + job.kernels()->verdict);
  if (job.graph()) context.Say("precision: " + job.graph()->verdict + (job.graph()->complete ? "" : " (search not complete)"));
  context.Say(fmt::format("operators fused into groups: {} before, {} after", document["groups"]["before"].get<int>(),
                          document["groups"]["after"].get<int>()));
  if (document.contains("latency_ms")) {
    const Json& memory = document["memory"];
    const Json& latency = document["latency_ms"];
    const double before = latency["before"];
    const double after = latency["after"];
    context.Say(fmt::format("peak memory: {} before, {} after", Bytes(memory["before"]["charged"].get<uint64_t>()),
                            Bytes(memory["after"]["charged"].get<uint64_t>())));
    context.Say(fmt::format("total gain: {:.3f} ms before, {:.3f} after, {:.2f} times as fast (+-{:.1f} %)", before, after,
                            before / after, 100 * latency["noise"].get<double>()));
  }
  context.Say(job.options().output);
}

}  // namespace tenon::cli
