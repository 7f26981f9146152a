// tenon quantize: a model that computes in integers.
#include <cmath>

#include "base/mapped_file.h"
#include "cli/guarded.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "compile/precision.h"
#include "compile/variants.h"
#include "guard/lowering_report.h"
#include "hw/quota.h"
#include "quantize/balance.h"
#include "quantize/bias_correction.h"
#include "quantize/calibration.h"
#include "quantize/export_qdq.h"
#include "runtime/open.h"

namespace tenon::cli {
namespace {

constexpr uint64_t kMaxTableBytes = 64 << 20;

struct Options {
  ModelOptions model;
  std::string output;
  std::string scheme = "int8";
  std::string data;
  std::string preprocess;
  std::string calibration = "minmax";
  double percentile = 99.999;
  size_t subset_size = 300;
  std::string table;
  std::string export_table;
  std::string export_onnx;
  std::string metric;
  std::string max_drop;   // empty: nothing guards
  std::string budget = "120s";
  std::string report;
  double held_out = 0.5;
  uint64_t seed = 42;
  std::string balance = "off";   // or alpha; empty: 0.5
  bool bias_correction = true;
};

// A model on its way.
struct Job {
  std::unique_ptr<compile::Variants> variants;
  compile::Variant full;               // f32
  std::unique_ptr<Session> session;    // of `full`
  std::unique_ptr<guard::DataSet> data;   // null: none given
  passes::PrecisionPolicy policy;
  guard::LoweringOptions judging;
  quantize::CalibrationTable table;    // empty: nothing is calibrated
  size_t calibration_samples = 0;
  std::vector<quantize::BalancedTensor> balanced;
  size_t corrected = 0;                // operators with another bias
  quantize::QdqReport exported;
  guard::LoweringResult result;        // without data: variant and verdict only
};

bool IsStatic(const Options& options) {
  return options.scheme == "int8";
}

// kUndefined: activations are integers too.
DType WeightsOnly(const Options& options) {
  return options.scheme == "w8" ? DType::kI8 : options.scheme == "w4" ? DType::kI4 : DType::kUndefined;
}

// Below 0: no balancing.
Result<double> ParseAlpha(const Options& options) {
  const std::string& text = options.balance;
  if (text == "off") return -1.0;
  if (text.empty()) return 0.5;
  char* end = nullptr;
  const double alpha = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(alpha >= 0) || alpha > 1) return Usage("--balance '{}'; allowed: 0 to 1", text);
  return alpha;
}

Status CheckOptions(const Options& options) {
  const CompileOptions& compile = options.model.compile;
  if (options.output.empty()) return Usage("no output given; -o OUT.tenon, or OUT.onnx");
  if (!options.export_onnx.empty() && !IsStatic(options)) {
    return Usage("an .onnx file with --scheme {}; int8 is exported, as QDQ", options.scheme);
  }
  if (options.model.model.ends_with(".tenon")) {
    return Usage("'{}' is compiled; quantise the model it came from", options.model.model);
  }
  if (options.data.empty() && options.table.empty() && IsStatic(options)) {
    return Usage("--scheme int8 without --data; ranges of tensors are measured on samples (or taken from --calibration-table)");
  }
  if (options.data.empty() && !options.max_drop.empty())
    return Usage("--max-drop without --data; what is lost is judged on samples");
  TENON_ASSIGN_OR_RETURN(const double alpha, ParseAlpha(options));
  if (options.data.empty() && alpha >= 0) return Usage("--balance without --data; it is measured on samples");
  if (alpha >= 0 && WeightsOnly(options) != DType::kUndefined)
    return Usage("--balance with --scheme {}; only weights are rounded", options.scheme);
  if (options.data.empty() && !options.metric.empty()) return Usage("--metric without --data; it judges samples");
  if (!IsStatic(options) && (!options.table.empty() || !options.export_table.empty())) {
    return Usage("a calibration table with --scheme {}; int8 has ranges, other schemes need none", options.scheme);
  }
  if (compile.precision != "f32" && compile.mixlist.empty()) {
    return Usage("--precision '{}' with quantize; --scheme says what is lowered", compile.precision);
  }
  TENON_RETURN_IF_ERROR(quantize::ParseMethod(options.calibration).status());
  if (!options.max_drop.empty()) TENON_RETURN_IF_ERROR(ParseShare(options.max_drop).status());
  TENON_RETURN_IF_ERROR(ParseDuration(options.budget).status());
  if (!options.export_onnx.empty()) TENON_RETURN_IF_ERROR(compile::CheckOutput(options.model.model, options.export_onnx));
  return compile::CheckOutput(options.model.model, options.output);
}

Status OpenData(const Options& options, Job* job) {
  if (options.data.empty()) return Status::Ok();
  guard::DataOptions data;
  data.preprocess = options.preprocess;
  TENON_ASSIGN_OR_RETURN(job->data, guard::DataSet::Open(options.data, *job->session, data));
  guard::LoweringOptions& judging = job->judging;
  if (job->data->size() > 1) {
    TENON_ASSIGN_OR_RETURN(judging.split, guard::SplitSamples(job->data->size(), options.held_out, options.seed));
  } else if (options.max_drop.empty() && job->data->size() == 1) {
    judging.split = {{0}, {0}};   // what is shown then is no proof, and nothing relies on it
  } else {
    return BadInput("'{}' holds {} samples; --max-drop needs two or more: some decide, the others judge", options.data,
                    job->data->size());
  }
  return Status::Ok();
}

// Whole or not at all; nowhere when `path` is empty.
Status WriteText(const std::string& path, const std::string& text) {
  if (path.empty()) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

std::vector<size_t> CalibrationSamples(const Options& options, const Job& job) {
  return quantize::Spread(job.judging.split.deciding, options.subset_size);
}

Status BalanceModel(const Options& options, Job* job) {
  TENON_ASSIGN_OR_RETURN(const double alpha, ParseAlpha(options));
  if (alpha < 0) return Status::Ok();
  job->judging.progress("balance", 0, 1);
  RunOptions run;
  run.cancel = &Interrupted();
  TENON_ASSIGN_OR_RETURN(const auto maxima, quantize::MeasureMaxima(job->full.program, *job->session, *job->data,
                                                                    CalibrationSamples(options, *job), run));
  TENON_RETURN_IF_ERROR(job->variants->Edit([&](ir::Graph& graph) -> Status {
    TENON_ASSIGN_OR_RETURN(job->balanced, quantize::Balance(graph, maxima, alpha));
    return Status::Ok();
  }));
  TENON_ASSIGN_OR_RETURN(job->full, job->variants->Full());
  TENON_ASSIGN_OR_RETURN(job->session, runtime::OpenProgram(job->full.program, options.model.session));
  return Status::Ok();
}

Status CorrectBiases(const Options& options, Job* job) {
  if (!options.bias_correction || job->data == nullptr || WeightsOnly(options) != DType::kUndefined) return Status::Ok();
  job->judging.progress("bias correction", 0, 1);
  RunOptions run;
  run.cancel = &Interrupted();
  TENON_ASSIGN_OR_RETURN(const compile::Variant lowered, job->variants->Make(job->policy));
  TENON_ASSIGN_OR_RETURN(auto correction, quantize::BiasCorrection::Measure(job->full.program, *job->session, lowered.program,
                                                                            *job->data, CalibrationSamples(options, *job), run));
  job->corrected = correction.shifts().size();
  job->variants->SetFinisher(
      [correction = std::move(correction)](artifact::Program* program) { return correction.Apply(program).status(); });
  return Status::Ok();
}

// Ranges of tensors: from a table, or from samples that do not judge later.
Status CalibrateModel(const Options& options, Progress* progress, const Context& context, Job* job) {
  if (!IsStatic(options)) return Status::Ok();
  if (!options.table.empty()) {
    TENON_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.table, kMaxTableBytes));
    auto table = quantize::CalibrationTable::FromJson(text);
    if (!table.ok()) return Status(table.status()).Within(fmt::format("calibration table '{}'", options.table));
    job->table = *std::move(table);
    size_t known = 0;
    for (const auto& v : job->full.program.values) known += job->table.ranges.contains(v.name) ? 1 : 0;
    if (known == 0)
      return BadInput("calibration table '{}' has none of the model's tensors; was it made for another?", options.table);
    if (known < job->table.ranges.size()) {
      context.Note(fmt::format("{} of {} tensors of the calibration table are not in the model", job->table.ranges.size() - known,
                               job->table.ranges.size()));
    }
  } else {
    const auto samples = CalibrationSamples(options, *job);
    quantize::CalibrationOptions calibration;
    TENON_ASSIGN_OR_RETURN(calibration.method, quantize::ParseMethod(options.calibration));
    calibration.percentile = options.percentile;
    calibration.run.cancel = &Interrupted();
    calibration.progress = job->judging.progress;
    TENON_ASSIGN_OR_RETURN(job->table, quantize::Calibrate(job->full.program, *job->session, *job->data, samples, calibration));
    job->calibration_samples = samples.size();
  }
  job->policy.ranges = job->table.ranges;
  progress->Clear();
  return WriteText(options.export_table, job->table.ToJson());
}

// Everything that can be lowered is, or as much as the guard allows.
Status Lower(const Options& options, Job* job) {
  if (job->data == nullptr) {
    TENON_ASSIGN_OR_RETURN(job->result.variant, job->variants->Make(job->policy));
    const size_t count = job->result.variant.outcome.lowered.size();
    job->result.lowered = count > 0;
    job->result.verdict = fmt::format("{} operators lowered; what that costs was not judged: no --data", count);
    return Status::Ok();
  }
  guard::LoweringOptions& judging = job->judging;
  judging.metric = guard::DefaultMetric(*job->session, *job->data);
  if (!options.metric.empty()) {
    TENON_ASSIGN_OR_RETURN(judging.metric, guard::ParseMetric(options.metric));
  }
  judging.max_drop = std::numeric_limits<double>::infinity();
  if (!options.max_drop.empty()) {
    TENON_ASSIGN_OR_RETURN(judging.max_drop, ParseShare(options.max_drop));
  }
  TENON_ASSIGN_OR_RETURN(judging.budget_s, ParseDuration(options.budget));
  judging.session = options.model.session;
  judging.run.cancel = &Interrupted();
  judging.policy = job->policy;
  judging.measures_ranges = false;
  judging.must_be_faster = false;   // memory is a reason too
  TENON_ASSIGN_OR_RETURN(job->result, guard::ChooseLowering(*job->variants, *job->data, judging));
  return Status::Ok();
}

Json CalibrationJson(const Job& job) {
  return {{"method", job.table.method},
          {"digest", job.table.Digest()},
          {"tensors", job.table.ranges.size()},
          {"samples", job.calibration_samples}};
}

// Without times: the same choice gives the same bytes in the artifact.
Json QuantizationJson(const Options& options, const Job& job) {
  Json document = {{"scheme", options.scheme}, {"seed", options.seed}};
  if (IsStatic(options)) document["calibration"] = CalibrationJson(job);
  document["bias_corrected"] = job.corrected;
  if (options.balance == "off") return document;
  size_t folded = 0;
  for (const auto& b : job.balanced) folded += b.folded ? 1 : 0;
  document["balance"] = {{"alpha", *ParseAlpha(options)}, {"tensors", job.balanced.size()}, {"folded", folded}};
  return document;
}

Json Document(const Options& options, const Job& job) {
  Json document = {{"file", options.output}, {"quantization", QuantizationJson(options, job)}, {"ops", Json::array()}};
  Json refused = Json::array();
  for (const auto& r : job.result.variant.outcome.refused)
    refused.push_back({{"name", r.name}, {"type", r.op}, {"reason", r.reason}});
  document["refused"] = refused;
  if (!options.export_onnx.empty()) {
    document["onnx"] = {{"file", options.export_onnx}, {"exported", job.exported.exported}, {"kept", job.exported.kept}};
  }
  if (job.data == nullptr) {
    for (const auto& n : job.result.variant.outcome.lowered) {
      document["ops"].push_back({{"name", n.name}, {"type", n.op}, {"precision", std::string(DTypeName(n.precision))}});
    }
    return document;
  }
  document["data"] = job.data->Describe();
  document["drop"] = guard::ToJson(job.result.held_out);
  document["ops"] = guard::OpsJson(job.result);
  document["guard"] = guard::GuardJson(job.result, job.judging);
  document["latency_ms"] = {
      {"before", job.result.before_us / 1e3}, {"after", job.result.after_us / 1e3}, {"noise", job.result.noise}};
  return document;
}

Status Export(const Options& options, Job* job) {
  if (options.export_onnx.empty()) return Status::Ok();
  std::set<std::string> outputs;
  for (const auto& n : job->result.variant.outcome.lowered) outputs.insert(n.output);
  TENON_ASSIGN_OR_RETURN(job->exported, quantize::ExportQdq(options.model.model, options.export_onnx, job->result.variant.program,
                                                            outputs, job->balanced));
  return Status::Ok();
}

Status Write(const Options& options, const Job& job, const Json& document) {
  const std::string text = Dump(document) + "\n";
  if (options.output == options.export_onnx) return WriteText(options.report, text);
  Json report = Json::parse(compile::ReportToJson(job.result.variant.report));
  report["quantization"] = document["quantization"];
  if (document.contains("guard")) report["guard"] = document["guard"];
  TENON_RETURN_IF_ERROR(compile::WriteProgram(job.result.variant.program, options.model.model, options.output,
                                              options.model.compile, Dump(report)));
  return WriteText(options.report, text);
}

void ShowSummary(const Options& options, const Job& job, const Context& context) {
  if (job.data != nullptr) ShowLowering(job.result, context);
  for (const std::string& note : compile::RefusalNotes(job.result.variant.outcome)) context.Say(note);
  if (IsStatic(options)) {
    context.Say(
        fmt::format("calibration: {}, {} tensors, digest {}", job.table.method, job.table.ranges.size(), job.table.Digest()));
  }
  if (job.corrected > 0) context.Say(fmt::format("biases corrected: {}", job.corrected));
  if (options.balance != "off") context.Say(fmt::format("tensors balanced: {}", job.balanced.size()));
  if (!options.export_onnx.empty()) {
    context.Say(fmt::format("{}: {} operators as QDQ", options.export_onnx, job.exported.exported));
    for (const std::string& k : job.exported.kept) context.Say("  in f32: " + k);
  }
  const guard::Drop& drop = job.result.held_out;
  if (job.data != nullptr) {
    context.Say(fmt::format("{}: {:.6g} before, {:.6g} after, on {} samples ({:.3f} %, 95 % between {:.3f} and {:.3f})",
                            drop.metric, drop.reference, drop.value, job.judging.split.held_out.size(), 100 * drop.relative,
                            100 * drop.low, 100 * drop.high));
    context.Say(fmt::format("latency: {:.3f} ms before, {:.3f} after (+-{:.1f} %)", job.result.before_us / 1e3,
                            job.result.after_us / 1e3, 100 * job.result.noise));
  }
  context.Say(fmt::format("{}{}", job.result.verdict, job.result.complete ? "" : " (search not complete)"));
  context.Say(options.output);
}

Status Run(Options& options, Context& context) {
  TENON_RETURN_IF_ERROR(options.model.Finish(context));
  if (options.output.ends_with(".onnx") && options.export_onnx.empty()) options.export_onnx = options.output;
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  // The lists and kept nodes of the user hold here too.
  options.model.compile.precision = "mixed";
  Progress progress(context);
  hw::Team team(hw::DetectCpuAllowance().threads);
  team.Enter();
  Job job;
  job.judging.progress = [&progress](const std::string& what, size_t done, size_t total) { progress.Update(what, done, total); };
  TENON_ASSIGN_OR_RETURN(job.variants, compile::Variants::Create(options.model.model, options.model.compile, team));
  TENON_ASSIGN_OR_RETURN(job.full, job.variants->Full());
  TENON_ASSIGN_OR_RETURN(job.session, runtime::OpenProgram(job.full.program, options.model.session));
  TENON_RETURN_IF_ERROR(OpenData(options, &job));
  job.policy = job.variants->policy();
  job.policy.bf16 = false;
  job.policy.int8 = true;
  job.policy.static_products = IsStatic(options);
  job.policy.weights_only = WeightsOnly(options);
  if (job.policy.weights_only != DType::kUndefined && !job.policy.black.contains("Gather")) job.policy.white.insert("Gather");
  TENON_RETURN_IF_ERROR(BalanceModel(options, &job));
  TENON_RETURN_IF_ERROR(CalibrateModel(options, &progress, context, &job));
  TENON_RETURN_IF_ERROR(CorrectBiases(options, &job));
  TENON_RETURN_IF_ERROR(Lower(options, &job));
  progress.Clear();
  TENON_RETURN_IF_ERROR(Export(options, &job));
  const Json document = Document(options, job);
  TENON_RETURN_IF_ERROR(Write(options, job, document));
  ShowSummary(options, job, context);
  if (job.result.refused) {
    context.details = document;
    return {Code::kGuardRefused, fmt::format("{}; '{}' was written in f32", job.result.verdict, options.output)};
  }
  context.Document(document);
  return Status::Ok();
}

void AddCalibration(CLI::App& app, Options* options) {
  app.add_option("--calibration", options->calibration, "How ranges are found: minmax, mse (ifmr), entropy (kl), percentile")
      ->capture_default_str()
      ->envname("TENON_CALIBRATION");
  app.add_option("--percentile", options->percentile, "Share of values that stay within the range, in percent")
      ->capture_default_str()
      ->check(CLI::Range(50.0, 100.0))
      ->envname("TENON_PERCENTILE");
  app.add_option("--subset-size", options->subset_size, "Most samples that are calibrated on")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000))
      ->envname("TENON_SUBSET_SIZE");
  app.add_option("--calibration-table", options->table, "Take ranges from this file")->envname("TENON_CALIBRATION_TABLE");
  app.add_flag("--bias-correction,!--no-bias-correction", options->bias_correction,
               "Fold the mean error of each operator into its bias (on)")
      ->envname("TENON_BIAS_CORRECTION");
  app.add_option("--balance", options->balance, "SmoothQuant for matrix products; alpha, 0.5 when not given")
      ->expected(0, 1)
      ->default_str("")
      ->envname("TENON_BALANCE");
  app.add_option("--export-table", options->export_table, "Write the ranges to this file (JSON)")->envname("TENON_EXPORT_TABLE");
}

void AddJudging(CLI::App& app, Options* options) {
  AddJudgingOptions(app, &options->metric, &options->held_out, &options->seed);
  app.add_option("--max-drop", options->max_drop, "Largest loss allowed on held-out samples, relative; layers stay f32 for it")
      ->envname("TENON_MAX_DROP");
  app.add_option("--budget", options->budget, "Time for the search under --max-drop, as 60s")
      ->capture_default_str()
      ->envname("TENON_BUDGET");
  app.add_option("--report", options->report, "Write the report as JSON to this file")->envname("TENON_REPORT");
}

}  // namespace

Command Make_quantize() {
  return {"quantize", "make a model compute in integers, or hold its weights in them",
          "tenon quantize model.onnx -o model.tenon --scheme int8 --data samples/ --calibration mse --max-drop 0.5%",
          [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            options->model.AddModel(app);
            app.add_option("-o,--output", options->output, "The artifact to write, or an .onnx file for other runtimes (QDQ)");
            app.add_option("--export-onnx", options->export_onnx, "Write the quantised model as an ONNX file too (QDQ)")
                ->envname("TENON_EXPORT_ONNX");
            app.add_option("--scheme", options->scheme,
                           "int8: ranges from samples; int8-dynamic: from each run's input; w8, w4: weights alone")
                ->capture_default_str()
                ->check(CLI::IsMember({"int8", "int8-dynamic", "w8", "w4"}))
                ->envname("TENON_SCHEME");
            app.add_option("--data", options->data, "Samples: a folder or file of .npz, .npy, .jsonl or pictures")
                ->envname("TENON_DATA");
            app.add_option("--preprocess", options->preprocess, "How pictures are prepared (a YAML or JSON file)")
                ->envname("TENON_PREPROCESS");
            app.add_option("--keep-nodes", options->model.compile.keep_nodes, "A node that stays f32 (repeatable)")
                ->envname("TENON_KEEP_NODES");
            AddCalibration(app, options.get());
            AddJudging(app, options.get());
            options->model.AddCompile(app);
            options->model.AddSession(app);
            return [options](Context& context) { return Run(*options, context); };
          }};
}

}  // namespace tenon::cli
