#include "cli/tune_job.h"

#include <filesystem>

#include "artifact/artifact.h"
#include "base/cache_folder.h"
#include "base/digest.h"
#include "guard/lowering_report.h"
#include "hw/quota.h"
#include "runtime/open.h"

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kGraphShare = 0.8;   // of the budget, for the search; the rest is for judging and for kernels

// What the guard finds out goes to the records at once.
class RecordedSearch final : public guard::SearchMemory {
 public:
  RecordedSearch(tune::Records* records, std::string subject) : records_(records), subject_(std::move(subject)) {}
  std::optional<std::string> Recall(const std::string& item) override {
    return records_->Find(tune::RecordTable::kMeasured, subject_, item);
  }
  void Keep(const std::string& item, const std::string& value) override {
    records_->Set(tune::RecordTable::kMeasured, subject_, item, value);
  }

 private:
  tune::Records* records_;
  std::string subject_;
};

Clock::duration Seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

}  // namespace

Result<Allowed> ParseAllow(const std::string& words) {
  Allowed allowed;
  std::string_view rest = words;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (word != "bf16" && word != "int8") return Usage("--allow '{}'; allowed: bf16, int8", word);
    (word == "bf16" ? allowed.bf16 : allowed.int8) = true;
  }
  return allowed;
}

Result<std::string> RecordsPath(const std::string& wish, const std::string& cache_dir) {
  if (wish == "none" || (wish.empty() && cache_dir == "none")) return std::string();
  if (!wish.empty()) return wish;
  TENON_ASSIGN_OR_RETURN(const std::string folder, CacheFolder(cache_dir));
  return folder.empty() ? std::string() : (std::filesystem::path(folder) / "tuning.sqlite").string();
}

double TuneJob::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

Status TuneJob::Prepare(const Allowed& allowed) {
  CompileOptions compile = options_.model.compile;
  // The lists and kept nodes of the user hold for the guard too.
  if (allowed.any()) compile.precision = "mixed";
  TENON_ASSIGN_OR_RETURN(const double budget, ParseDuration(options_.budget));
  team_ = std::make_unique<hw::Team>(hw::DetectCpuAllowance().threads);
  team_->Enter();
  TENON_ASSIGN_OR_RETURN(variants_, compile::Variants::Create(options_.model.model, compile, *team_));
  TENON_ASSIGN_OR_RETURN(full_, variants_->Full());
  TENON_ASSIGN_OR_RETURN(session_, runtime::OpenProgram(full_.program, options_.model.session));
  TENON_RETURN_IF_ERROR(OpenData());
  TENON_RETURN_IF_ERROR(OpenRecords());
  const bool resumed = options_.resume && LeftByAnEarlierTuning();
  if (!resumed) TENON_RETURN_IF_ERROR(Write());
  if (options_.resume && !resumed) context_.Note("--resume: no artifact of this model at the output; begun anew");
  start_ = Clock::now();
  deadline_ = start_ + Seconds(std::min(budget, 1e6));
  return Status::Ok();
}

// At the output: an artifact of this very model. It was the default, or better.
bool TuneJob::LeftByAnEarlierTuning() const {
  if (!artifact::LooksLikeArtifact(options_.output)) return false;
  const auto artifact = artifact::Read(options_.output);
  const auto digest = ModelDigest(options_.model.model);
  if (!artifact.ok() || !digest.ok()) return false;
  const auto it = artifact->provenance.find("source_digest");
  return it != artifact->provenance.end() && it->second == *digest;
}

Status TuneJob::OpenData() {
  if (!options_.data.empty()) {
    guard::DataOptions data;
    data.preprocess = options_.preprocess;
    TENON_ASSIGN_OR_RETURN(data_, guard::DataSet::Open(options_.data, *session_, data));
    return Status::Ok();
  }
  context_.Note("no --data: nothing is lowered; kernels are measured on inputs that are made up where none are given");
  guard::Sample sample;
  TENON_ASSIGN_OR_RETURN(sample.inputs, options_.inputs.Load(*session_, 0, context_));
  std::vector<guard::Sample> samples = {std::move(sample)};
  data_ = guard::DataSet::Of(std::move(samples), "inputs given or made up");
  return Status::Ok();
}

Status TuneJob::OpenRecords() {
  TENON_ASSIGN_OR_RETURN(const std::string path, RecordsPath(options_.records, options_.model.cache_dir));
  if (path.empty() && options_.resume) return Usage("--resume without records; --records FILE says where they are");
  TENON_ASSIGN_OR_RETURN(const hw::IsaMask isa, hw::ActiveIsa());
  records_ = tune::Records::Open(path, tune::ThisMachine(isa));
  if (!records_->note().empty()) context_.Note(records_->note());
  return Status::Ok();
}

// All that what the guard measures depends on.
Result<std::string> TuneJob::Subject() const {
  const CompileOptions& compile = options_.model.compile;
  std::string text = fmt::format("{} {} {} {} {} {}", tune::ProgramDigest(full_.program), session_->threads(), options_.allow,
                                 options_.metric, options_.held_out, options_.seed);
  for (const std::string& file : {options_.data, options_.preprocess, compile.mixlist, compile.keep_dtype}) {
    text += "\n";
    if (file.empty()) continue;
    TENON_ASSIGN_OR_RETURN(const std::string digest, tune::FilesDigest(file));
    text += digest;
  }
  return "search " + TextDigest(text);
}

Status TuneJob::Graph(const Allowed& allowed) {
  judging_.metric = guard::DefaultMetric(*session_, *data_);
  if (!options_.metric.empty()) {
    TENON_ASSIGN_OR_RETURN(judging_.metric, guard::ParseMetric(options_.metric));
  }
  TENON_ASSIGN_OR_RETURN(judging_.split, guard::SplitSamples(data_->size(), options_.held_out, options_.seed));
  TENON_ASSIGN_OR_RETURN(judging_.max_drop, ParseShare(options_.max_drop));
  const double left = std::chrono::duration<double>(deadline_ - Clock::now()).count();
  judging_.budget_s = std::max(left * kGraphShare, 0.0);
  judging_.session = options_.model.session;
  judging_.run.cancel = &Interrupted();
  judging_.run.deadline = deadline_;
  judging_.policy = variants_->policy();
  judging_.policy.bf16 = allowed.bf16;
  judging_.policy.int8 = allowed.int8;
  judging_.progress = [this](const std::string& what, size_t done, size_t total) { progress_.Update(what, done, total); };
  TENON_ASSIGN_OR_RETURN(std::string subject, Subject());
  RecordedSearch memory(records_.get(), std::move(subject));
  judging_.memory = &memory;
  auto result = guard::ChooseLowering(*variants_, *data_, judging_);
  judging_.memory = nullptr;
  if (result.status().code() == Code::kCancelled) {
    context_.Note("stopped before a choice could be judged: nothing is lowered");
    stopped_ = true;
    return Status::Ok();
  }
  TENON_RETURN_IF_ERROR(result.status());
  graph_ = std::move(*result);
  return Write();
}

Status TuneJob::Kernels() {
  tune::KernelTuningOptions tuning;
  tuning.session = options_.model.session;
  tuning.run.cancel = &Interrupted();
  tuning.run.deadline = deadline_;
  tuning.records = records_.get();
  tuning.progress = [this](const std::string& what, size_t done, size_t total) { progress_.Update(what, done, total); };
  TENON_ASSIGN_OR_RETURN(kernels_, tune::ChooseKernels(variant().program, *data_, 0, tuning));
  if (!kernels_->accepted) return Status::Ok();
  if (graph_ && graph_->lowered) TENON_RETURN_IF_ERROR(JudgeKernels());
  return kernels_->accepted ? Write() : Status::Ok();
}

// What the guard judged had other kernels, which round otherwise: once more on the held-out samples.
Status TuneJob::JudgeKernels() {
  TENON_ASSIGN_OR_RETURN(const auto tuned, runtime::OpenProgram(kernels_->program, options_.model.session));
  guard::References references(*session_, *data_);
  const std::vector<size_t>& held_out = judging_.split.held_out;
  RunOptions run;
  run.cancel = &Interrupted();
  const auto evaluate = [&](Session& session) {
    return guard::Evaluate(session, *data_, held_out, judging_.metric, &references, {run, {}});
  };
  const auto judged = [&]() -> Result<guard::Drop> {
    TENON_ASSIGN_OR_RETURN(const guard::Evaluation before, evaluate(*session_));
    TENON_ASSIGN_OR_RETURN(const guard::Evaluation after, evaluate(*tuned));
    return guard::Compare(before, after);
  }();
  if (!judged.ok() && judged.status().code() != Code::kCancelled) return judged.status();
  if (judged.ok() && guard::Within(*judged, judging_.max_drop)) {
    graph_->held_out = *judged;
    return Status::Ok();
  }
  kernels_->program = variant().program;
  kernels_->accepted = false;
  kernels_->changed = 0;
  kernels_->verdict =
      judged.ok() ? "kept the default kernels: with others more is lost than allowed" : "stopped: the default kernels";
  return Status::Ok();
}

Status TuneJob::Write() const {
  Json report = Json::parse(compile::ReportToJson(variant().report));
  if (graph_) report["guard"] = guard::GuardJson(*graph_, judging_);
  return compile::WriteProgram(program(), options_.model.model, options_.output, options_.model.compile, report.dump());
}

}  // namespace tenon::cli
