// tenon tune: makes a model as fast as this machine allows without losing accuracy.
#include "base/mapped_file.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "compile/variants.h"
#include "guard/lowering_report.h"
#include "hw/quota.h"
#include "runtime/open.h"

namespace tenon::cli {
namespace {

struct Options {
  ModelOptions model;
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

Json PassesJson(const CompileReport& report) {
  Json passes = Json::array();
  for (const PassReport& p : report.passes) passes.push_back({{"name", p.name}, {"changes", p.changes}});
  return passes;
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

Json Document(const Options& options, const guard::LoweringResult& result, const guard::LoweringOptions& lowering,
              int ops_before) {
  return {{"file", options.output},
          {"groups", {{"before", ops_before}, {"after", CountAll(result.variant.report.ops)}}},
          {"latency_ms", {{"before", result.before_us / 1e3}, {"after", result.after_us / 1e3}, {"noise", result.noise}}},
          {"drop", guard::ToJson(result.held_out)},
          {"ops", guard::OpsJson(result)},
          {"guard", guard::GuardJson(result, lowering)}};
}

// Memory that a run needs, before and after.
Result<Json> MemoryJson(const artifact::Program& before, const artifact::Program& after, guard::DataSet& data,
                        const SessionOptions& options) {
  Json memory;
  for (const auto& [name, program] : {std::pair{"before", &before}, std::pair{"after", &after}}) {
    artifact::Artifact artifact;
    artifact.program = *program;
    TENON_ASSIGN_OR_RETURN(const auto session, runtime::OpenArtifact(std::move(artifact), options));
    TENON_ASSIGN_OR_RETURN(const guard::Sample sample, data.Load(0));
    TENON_RETURN_IF_ERROR(session->Run(sample.inputs).status());
    const MemoryReport m = session->memory();
    memory[name] = {{"weights", m.weights}, {"packed", m.packed}, {"arena", m.arena}, {"charged", m.charged}};
  }
  return memory;
}

Status WriteReport(const std::string& path, const Json& document) {
  if (path.empty()) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  const std::string text = document.dump(2) + "\n";
  TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

Status Write(const Options& options, const guard::LoweringResult& result, const Json& guard) {
  Json report = Json::parse(compile::ReportToJson(result.variant.report));
  report["guard"] = guard;
  return compile::WriteProgram(result.variant.program, options.model.model, options.output, options.model.compile, report.dump());
}

// Without data nothing is lowered: the model is compiled as it is.
Status TuneWithoutData(const Options& options, const Context& context) {
  TENON_ASSIGN_OR_RETURN(const CompileReport report, Compile(options.model.model, options.output, options.model.compile));
  context.Note("no --data: nothing was lowered");
  context.Document({{"file", options.output}, {"ops", Json::array()}, {"passes", PassesJson(report)}});
  context.Say(fmt::format("{}: {} operators, f32", options.output, CountAll(report.ops)));
  return Status::Ok();
}

// How the models are judged: metric and parts of the data.
Result<guard::LoweringOptions> Judging(const Options& options, const Session& session, guard::DataSet& data) {
  guard::LoweringOptions lowering;
  lowering.metric = guard::DefaultMetric(session, data);
  if (!options.metric.empty()) {
    TENON_ASSIGN_OR_RETURN(lowering.metric, guard::ParseMetric(options.metric));
  }
  TENON_ASSIGN_OR_RETURN(lowering.split, guard::SplitSamples(data.size(), options.held_out, options.seed));
  lowering.session = options.model.session;
  lowering.run.cancel = &Interrupted();
  return lowering;
}

Status Run(Options& options, Context& context) {
  TENON_RETURN_IF_ERROR(options.model.Finish(context));
  if (options.output.empty()) return Usage("no output given; -o OUT.tenon");
  if (options.stage == "serve") return Unsupported("--stage serve; a serving search comes with the server");
  if (options.model.model.ends_with(".tenon")) return Usage("'{}' is compiled; tune the model it came from", options.model.model);
  TENON_ASSIGN_OR_RETURN(const double max_drop, ParseShare(options.max_drop));
  TENON_ASSIGN_OR_RETURN(const double budget, ParseDuration(options.budget));
  TENON_RETURN_IF_ERROR(compile::CheckOutput(options.model.model, options.output));
  if (options.data.empty()) {
    if (!options.allow.empty()) return Usage("--allow without --data; what may be lowered is judged on samples");
    return TuneWithoutData(options, context);
  }
  TENON_ASSIGN_OR_RETURN(const Allowed allowed, ParseAllow(options));
  // The lists and kept nodes of the user hold for the guard too.
  if (options.model.compile.precision == "f32" && (allowed.bf16 || allowed.int8)) options.model.compile.precision = "mixed";

  Progress progress(context);
  progress.Update("compiling", 0, 1);
  hw::Team team(hw::DetectCpuAllowance().threads);
  team.Enter();
  TENON_ASSIGN_OR_RETURN(const auto variants, compile::Variants::Create(options.model.model, options.model.compile, team));
  TENON_ASSIGN_OR_RETURN(const compile::Variant full, variants->Full());
  artifact::Artifact artifact;
  artifact.program = full.program;
  TENON_ASSIGN_OR_RETURN(const auto session, runtime::OpenArtifact(std::move(artifact), options.model.session));
  guard::DataOptions data_options;
  data_options.preprocess = options.preprocess;
  TENON_ASSIGN_OR_RETURN(const auto data, guard::DataSet::Open(options.data, *session, data_options));

  TENON_ASSIGN_OR_RETURN(guard::LoweringOptions lowering, Judging(options, *session, *data));
  lowering.policy = variants->policy();
  lowering.policy.bf16 = allowed.bf16;
  lowering.policy.int8 = allowed.int8;
  lowering.max_drop = max_drop;
  lowering.budget_s = budget;
  lowering.progress = [&](const std::string& what, size_t done, size_t total) { progress.Update(what, done, total); };
  TENON_ASSIGN_OR_RETURN(const guard::LoweringResult result, guard::ChooseLowering(*variants, *data, lowering));

  Json document = Document(options, result, lowering, full.report.imported_ops);
  TENON_ASSIGN_OR_RETURN(document["memory"], MemoryJson(full.program, result.variant.program, *data, options.model.session));
  progress.Clear();
  TENON_RETURN_IF_ERROR(Write(options, result, document["guard"]));
  TENON_RETURN_IF_ERROR(WriteReport(options.report, document));
  Show(result, context);
  context.Say(fmt::format("{} samples decided, {} judged; data: {}", lowering.split.deciding.size(),
                          lowering.split.held_out.size(), data->Describe()));
  if (result.refused) {
    context.details = document;
    return {Code::kGuardRefused, fmt::format("{}; '{}' was written in f32", result.verdict, options.output)};
  }
  context.Document(document);
  context.Say(
      fmt::format("groups: {} operators before, {} after", full.report.imported_ops, CountAll(result.variant.report.ops)));
  context.Say(fmt::format("peak memory: {} before, {} after", Bytes(document["memory"]["before"]["charged"].get<uint64_t>()),
                          Bytes(document["memory"]["after"]["charged"].get<uint64_t>())));
  context.Say(fmt::format("time: {:.3f} ms before, {:.3f} after (+-{:.1f} %)", result.before_us / 1e3, result.after_us / 1e3,
                          100 * result.noise));
  context.Say(fmt::format("{}: {}{}", options.output, result.verdict, result.complete ? "" : " (search not complete)"));
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
