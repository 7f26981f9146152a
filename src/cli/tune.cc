// tenon tune: makes a model as fast as this machine allows without losing accuracy.
#include <chrono>
#include <optional>

#include "base/mapped_file.h"
#include "cli/inputs.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "compile/variants.h"
#include "guard/lowering_report.h"
#include "hw/quota.h"
#include "runtime/open.h"
#include "tune/kernel_choice.h"

namespace tenon::cli {
namespace {

struct Options {
  ModelOptions model;
  InputOptions inputs;
  std::string output;
  std::string stage = "all";
  std::string allow;
  std::string data;
  std::string preprocess;
  std::string metric;
  std::string max_drop = "0.5%";
  std::string budget = "60s";
  std::string report;
  double held_out = 0.5;
  uint64_t seed = 42;
};

// "0.5%" or "0.005".
Result<double> ParseShare(const std::string& text) {
  const bool percent = text.ends_with('%');
  const std::string number = percent ? text.substr(0, text.size() - 1) : text;
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(value >= 0) || value > 1000) {
    return Usage("--max-drop '{}'; allowed: a share, as 0.5% or 0.005", text);
  }
  return percent ? value / 100 : value;
}

struct Allowed {
  bool bf16 = false;
  bool int8 = false;
};

Result<Allowed> ParseAllow(const Options& options) {
  Allowed allowed;
  std::string_view rest = options.allow;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (word != "bf16" && word != "int8") return Usage("--allow '{}'; allowed: bf16, int8", word);
    (word == "bf16" ? allowed.bf16 : allowed.int8) = true;
  }
  return allowed;
}

int CountAll(const std::map<std::string, int>& ops) {
  int n = 0;
  for (const auto& [op, count] : ops) n += count;
  return n;
}

void Show(const guard::LoweringResult& result, const Context& context) {
  if (result.nodes.empty()) return;
  std::vector<std::vector<std::string>> table = {{"node", "operator", "precision", "before us", "after us", "alone: error"}};
  for (const guard::NodeChoice& n : result.nodes) {
    table.push_back({n.name, n.op, n.lowered ? std::string(DTypeName(n.precision)) : "float32",
                     fmt::format("{:.1f}", n.before_us), n.lowered ? fmt::format("{:.1f}", n.after_us) : "-",
                     n.alone_known ? fmt::format("{:.2e}", n.alone_error) : "-"});
  }
  context.Say(Table(table));
  std::vector<std::vector<std::string>> curve = {{"lowered", "estimated ms", "drop %", "what"}};
  for (const guard::Trial& t : result.trials) {
    curve.push_back(
        {std::to_string(t.lowered), fmt::format("{:.3f}", t.estimated_us / 1e3), fmt::format("{:.3f}", 100 * t.drop), t.what});
  }
  context.Say(Table(curve));
}

// What a session holds after a run.
Json MemoryJson(const Session& session) {
  const MemoryReport m = session.memory();
  return {{"weights", m.weights}, {"packed", m.packed}, {"arena", m.arena}, {"charged", m.charged}};
}

Status WriteReport(const std::string& path, const Json& document) {
  if (path.empty()) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  const std::string text = document.dump(2) + "\n";
  TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

// A model on its way through the stages.
struct Job {
  std::unique_ptr<compile::Variants> variants;
  compile::Variant full;                       // f32
  std::unique_ptr<Session> session;            // of `full`
  std::unique_ptr<guard::DataSet> data;
  guard::LoweringOptions judging;
  std::optional<guard::LoweringResult> graph;
  std::optional<tune::KernelTuning> kernels;

  const compile::Variant& variant() const { return graph ? graph->variant : full; }
  const artifact::Program& program() const { return kernels ? kernels->program : variant().program; }
};

Result<std::unique_ptr<guard::DataSet>> OpenData(const Options& options, const Session& session, const Context& context) {
  if (!options.data.empty()) {
    guard::DataOptions data;
    data.preprocess = options.preprocess;
    return guard::DataSet::Open(options.data, session, data);
  }
  context.Note("no --data: nothing is lowered; kernels are measured on inputs that are made up where none are given");
  guard::Sample sample;
  TENON_ASSIGN_OR_RETURN(sample.inputs, options.inputs.Load(session, 0, context));
  std::vector<guard::Sample> samples = {std::move(sample)};
  return {guard::DataSet::Of(std::move(samples), "inputs given or made up")};
}

// Which operators compute in less than f32, under the guard.
Status GraphStage(const Options& options, const Allowed& allowed, Progress* progress, Job* job) {
  guard::LoweringOptions& judging = job->judging;
  judging.metric = guard::DefaultMetric(*job->session, *job->data);
  if (!options.metric.empty()) {
    TENON_ASSIGN_OR_RETURN(judging.metric, guard::ParseMetric(options.metric));
  }
  TENON_ASSIGN_OR_RETURN(judging.split, guard::SplitSamples(job->data->size(), options.held_out, options.seed));
  TENON_ASSIGN_OR_RETURN(judging.max_drop, ParseShare(options.max_drop));
  TENON_ASSIGN_OR_RETURN(judging.budget_s, ParseDuration(options.budget));
  judging.session = options.model.session;
  judging.run.cancel = &Interrupted();
  judging.policy = job->variants->policy();
  judging.policy.bf16 = allowed.bf16;
  judging.policy.int8 = allowed.int8;
  judging.progress = [progress](const std::string& what, size_t done, size_t total) { progress->Update(what, done, total); };
  TENON_ASSIGN_OR_RETURN(job->graph, guard::ChooseLowering(*job->variants, *job->data, judging));
  return Status::Ok();
}

// Which kernel serves each operator. Measured on one thread team and shape: those of the first sample.
Status KernelStage(const Options& options, double spent_s, Progress* progress, Job* job) {
  tune::KernelTuningOptions tuning;
  TENON_ASSIGN_OR_RETURN(const double budget, ParseDuration(options.budget));
  tuning.budget_s = std::max(budget - spent_s, 1.0);
  tuning.session = options.model.session;
  tuning.run.cancel = &Interrupted();
  tuning.progress = [progress](const std::string& what, size_t done, size_t total) { progress->Update(what, done, total); };
  TENON_ASSIGN_OR_RETURN(job->kernels, tune::ChooseKernels(job->variant().program, *job->data, 0, tuning));
  return Status::Ok();
}

Json KernelsJson(const tune::KernelTuning& tuning) {
  Json rows = Json::array();
  for (const tune::KernelDecision& d : tuning.decisions) {
    Json candidates = Json::array();
    for (const tune::Candidate& c : d.candidates) candidates.push_back({{"kernel", c.kernel}, {"us", c.us}});
    rows.push_back({{"name", d.node},
                    {"type", d.op},
                    {"shapes", d.shapes},
                    {"candidates", candidates},
                    {"winner", d.winner},
                    {"noise", d.noise}});
  }
  return {{"changed", tuning.changed},   {"accepted", tuning.accepted}, {"before_us", tuning.before_us},
          {"after_us", tuning.after_us}, {"verdict", tuning.verdict},   {"operators", rows}};
}

// From f32 on default kernels to what is written.
Result<Json> Document(const Options& options, const Job& job) {
  Json document = {{"file", options.output},
                   {"groups", {{"before", job.full.report.imported_ops}, {"after", CountAll(job.variant().report.ops)}}},
                   {"ops", Json::array()},
                   {"data", job.data->Describe()}};
  if (job.graph) {
    document["drop"] = guard::ToJson(job.graph->held_out);
    document["ops"] = guard::OpsJson(*job.graph);
    document["guard"] = guard::GuardJson(*job.graph, job.judging);
  }
  if (job.kernels) document["kernels"] = KernelsJson(*job.kernels);
  TENON_ASSIGN_OR_RETURN(const auto tuned, runtime::OpenProgram(job.program(), options.model.session));
  const std::vector<size_t> sample{0};
  TENON_ASSIGN_OR_RETURN(const guard::Duel duel, guard::Race(*job.session, *tuned, *job.data, sample, 31, {}));
  document["memory"] = {{"before", MemoryJson(*job.session)}, {"after", MemoryJson(*tuned)}};
  document["latency_ms"] = {{"before", duel.first_us / 1e3}, {"after", duel.second_us / 1e3}, {"noise", duel.noise}};
  return document;
}

Status Write(const Options& options, const Job& job, const Json& document) {
  Json report = Json::parse(compile::ReportToJson(job.variant().report));
  if (document.contains("guard")) report["guard"] = document["guard"];
  TENON_RETURN_IF_ERROR(
      compile::WriteProgram(job.program(), options.model.model, options.output, options.model.compile, report.dump()));
  return WriteReport(options.report, document);
}

void ShowSummary(const Options& options, const Job& job, const Json& document, const Context& context) {
  const Json& memory = document["memory"];
  const Json& latency = document["latency_ms"];
  const double before = latency["before"];
  const double after = latency["after"];
  if (job.kernels) context.Say("kernels: " + job.kernels->verdict);
  if (job.graph) context.Say("precision: " + job.graph->verdict + (job.graph->complete ? "" : " (search not complete)"));
  context.Say(fmt::format("operators fused into groups: {} before, {} after", document["groups"]["before"].get<int>(),
                          document["groups"]["after"].get<int>()));
  context.Say(fmt::format("peak memory: {} before, {} after", Bytes(memory["before"]["charged"].get<uint64_t>()),
                          Bytes(memory["after"]["charged"].get<uint64_t>())));
  context.Say(fmt::format("total gain: {:.3f} ms before, {:.3f} after, {:.2f} times as fast (+-{:.1f} %)", before, after,
                          before / after, 100 * latency["noise"].get<double>()));
  context.Say(options.output);
}

Status CheckOptions(const Options& options) {
  const CompileOptions& compile = options.model.compile;
  if (options.output.empty()) return Usage("no output given; -o OUT.tenon");
  if (options.stage == "serve") return Unsupported("--stage serve; a serving search comes with the server");
  if (options.model.model.ends_with(".tenon")) return Usage("'{}' is compiled; tune the model it came from", options.model.model);
  if (options.data.empty() && !options.allow.empty())
    return Usage("--allow without --data; what may be lowered is judged on samples");
  if (compile.precision != "f32" && compile.mixlist.empty())
    return Usage("--precision '{}' with tune; --allow says what may be lowered", compile.precision);
  TENON_RETURN_IF_ERROR(ParseShare(options.max_drop).status());
  TENON_RETURN_IF_ERROR(ParseDuration(options.budget).status());
  return compile::CheckOutput(options.model.model, options.output);
}

Status Run(Options& options, Context& context) {
  TENON_RETURN_IF_ERROR(options.model.Finish(context));
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  TENON_ASSIGN_OR_RETURN(const Allowed allowed, ParseAllow(options));
  // The lists and kept nodes of the user hold for the guard too.
  if (allowed.bf16 || allowed.int8) options.model.compile.precision = "mixed";
  const auto start = std::chrono::steady_clock::now();
  Progress progress(context);
  hw::Team team(hw::DetectCpuAllowance().threads);
  team.Enter();
  Job job;
  TENON_ASSIGN_OR_RETURN(job.variants, compile::Variants::Create(options.model.model, options.model.compile, team));
  TENON_ASSIGN_OR_RETURN(job.full, job.variants->Full());
  TENON_ASSIGN_OR_RETURN(job.session, runtime::OpenProgram(job.full.program, options.model.session));
  TENON_ASSIGN_OR_RETURN(job.data, OpenData(options, *job.session, context));
  const bool graph = options.stage != "kernel" && options.stage != "2";
  const bool kernel = options.stage != "graph" && options.stage != "1";
  if (graph && (allowed.bf16 || allowed.int8)) TENON_RETURN_IF_ERROR(GraphStage(options, allowed, &progress, &job));
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (kernel) TENON_RETURN_IF_ERROR(KernelStage(options, spent, &progress, &job));
  TENON_ASSIGN_OR_RETURN(const Json document, Document(options, job));
  progress.Clear();
  TENON_RETURN_IF_ERROR(Write(options, job, document));
  if (job.graph) Show(*job.graph, context);
  ShowSummary(options, job, document, context);
  if (job.graph && job.graph->refused) {
    context.details = document;
    return {Code::kGuardRefused, fmt::format("{}; '{}' was written in f32", job.graph->verdict, options.output)};
  }
  context.Document(document);
  return Status::Ok();
}

}  // namespace

Command Make_tune() {
  return {"tune", "make a model faster without losing accuracy",
          "tenon tune model.onnx -o model.tenon --allow bf16,int8 --data samples/ --max-drop 0.5%", [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            options->model.AddModel(app);
            app.add_option("-o,--output", options->output, "The artifact to write");
            app.add_option("--stage", options->stage, "What is searched")
                ->capture_default_str()
                ->check(CLI::IsMember({"graph", "kernel", "serve", "all", "1", "2", "3"}))
                ->envname("TENON_STAGE");
            app.add_option("--allow", options->allow, "Precisions that operators may be lowered to: bf16,int8")
                ->envname("TENON_ALLOW");
            options->inputs.Add(app);
            app.add_option("--data", options->data, "Samples: a folder or file of .npz, .npy, .jsonl or pictures")
                ->envname("TENON_DATA");
            app.add_option("--preprocess", options->preprocess, "How pictures are prepared (a YAML or JSON file)")
                ->envname("TENON_PREPROCESS");
            app.add_option("--metric", options->metric,
                           "top1, top5, cosine, rmse, max-abs, token-agreement, exact-match, "
                           "ctc-exact-match, or 'cmd COMMAND'")
                ->envname("TENON_METRIC");
            app.add_option("--max-drop", options->max_drop, "Largest loss allowed on held-out samples, relative")
                ->capture_default_str()
                ->envname("TENON_MAX_DROP");
            app.add_option("--budget", options->budget, "Time for the search, as 60s")
                ->capture_default_str()
                ->envname("TENON_BUDGET");
            app.add_option("--report", options->report, "Write the report as JSON to this file")->envname("TENON_REPORT");
            app.add_option("--held-out", options->held_out, "Share of the samples that judge, and have no say before")
                ->capture_default_str()
                ->check(CLI::Range(0.01, 0.99))
                ->envname("TENON_HELD_OUT");
            app.add_option("--seed", options->seed, "Of the split")->capture_default_str()->envname("TENON_SEED");
            options->model.AddCompile(app);
            options->model.AddSession(app);
            return [options](Context& context) { return Run(*options, context); };
          }};
}

}  // namespace tenon::cli
