// tenon tune: makes a model as fast as this machine allows without losing accuracy.
#include "cli/tune_job.h"
#include "cli/tune_records.h"
#include "cli/tune_report.h"
#include "cli/tune_serve.h"

namespace tenon::cli {
namespace {

Status CheckOptions(const TuneOptions& options) {
  const CompileOptions& compile = options.model.compile;
  if (options.model.model.empty()) return Usage("no model given; or one of export, import, merge, prune");
  if (options.output.empty()) return Usage("no output given; -o OUT.tenon");
  if (options.model.model.ends_with(".tenon")) return Usage("'{}' is compiled; tune the model it came from", options.model.model);
  if (options.data.empty() && !options.allow.empty())
    return Usage("--allow without --data; what may be lowered is judged on samples");
  if (compile.precision != "f32" && compile.mixlist.empty())
    return Usage("--precision '{}' with tune; --allow says what may be lowered", compile.precision);
  TENON_RETURN_IF_ERROR(ParseShare(options.max_drop).status());
  TENON_RETURN_IF_ERROR(ParseDuration(options.budget).status());
  return compile::CheckOutput(options.model.model, options.output);
}

Status Run(TuneOptions& options, const TuneServeOptions& serving, Context& context) {
  TENON_RETURN_IF_ERROR(options.model.Finish(context));
  if (options.stage == "serve") return TuneServing(options, serving, context);
  if (!serving.p99.empty()) return Usage("--p99 without --stage serve");
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  TENON_ASSIGN_OR_RETURN(const Allowed allowed, ParseAllow(options.allow));
  TuneJob job(options, context);
  TENON_RETURN_IF_ERROR(job.Prepare(allowed));
  if (options.graph_stage() && allowed.any()) TENON_RETURN_IF_ERROR(job.Graph(allowed));
  if (options.kernel_stage() && !job.interrupted()) TENON_RETURN_IF_ERROR(job.Kernels());
  TENON_ASSIGN_OR_RETURN(const Json document, TuneDocument(job));
  job.progress().Clear();
  TENON_RETURN_IF_ERROR(WriteTuneReports(options, document));
  ShowTuning(job, document, context);
  context.details = document;
  if (job.interrupted())
    return {Code::kCancelled, fmt::format("interrupted; '{}' holds the best that was found until then", options.output)};
  if (job.graph() && job.graph()->refused)
    return {Code::kGuardRefused, fmt::format("{}; '{}' was written in f32", job.graph()->verdict, options.output)};
  context.Document(document);
  return Status::Ok();
}

void AddSearch(CLI::App& app, TuneOptions* options) {
  app.add_option("--stage", options->stage, "What is searched")
      ->capture_default_str()
      ->check(CLI::IsMember({"graph", "kernel", "serve", "all", "1", "2", "3"}))
      ->envname("TENON_STAGE");
  app.add_option("--allow", options->allow, "Precisions that operators may be lowered to: bf16,int8")->envname("TENON_ALLOW");
  app.add_option("--budget", options->budget, "Time for the search, as 60s")->capture_default_str()->envname("TENON_BUDGET");
  app.add_option("--records", options->records, "Where choices are kept and found again; 'none': nowhere")
      ->envname("TENON_RECORDS");
  app.add_flag("--resume", options->resume,
               "Go on where an interrupted tuning ended: what it left at the output stays until "
               "something better is found")
      ->envname("TENON_RESUME");
  app.add_option("--report", options->reports,
                 "Write the report to this file: a page where it ends in .html, else JSON (repeatable)")
      ->envname("TENON_REPORT");
}

void AddJudging(CLI::App& app, TuneOptions* options) {
  app.add_option("--data", options->data, "Samples: a folder or file of .npz, .npy, .jsonl or pictures")->envname("TENON_DATA");
  app.add_option("--preprocess", options->preprocess, "How pictures are prepared (a YAML or JSON file)")
      ->envname("TENON_PREPROCESS");
  AddJudgingOptions(app, &options->metric, &options->held_out, &options->seed);
  app.add_option("--max-drop", options->max_drop, "Largest loss allowed on held-out samples, relative")
      ->capture_default_str()
      ->envname("TENON_MAX_DROP");
}

}  // namespace

Command Make_tune() {
  return {"tune", "make a model faster without losing accuracy",
          "tenon tune model.onnx -o model.tenon --allow bf16,int8 --data samples/ --max-drop 0.5%", [](CLI::App& app) {
            auto options = std::make_shared<TuneOptions>();
            auto serving = std::make_shared<TuneServeOptions>();
            options->model.AddModel(app);
            app.get_option("MODEL")->required(false);   // the sub-commands take none
            app.add_option("-o,--output", options->output, "The artifact to write; with --stage serve a tenon.yaml");
            AddSearch(app, options.get());
            AddJudging(app, options.get());
            app.add_option("--p99", serving->p99, "With --stage serve: the latency that 99 of 100 requests keep, as 50ms")
                ->envname("TENON_P99");
            app.add_option("--max-batch", serving->max_batch, "With --stage serve: most rows tried in one run")
                ->capture_default_str()
                ->check(CLI::Range(0, 4096))
                ->envname("TENON_MAX_BATCH");
            options->inputs.Add(app);
            options->model.AddCompile(app);
            options->model.AddSession(app);
            const auto records = AddRecordCommands(app);
            return [options, serving, records](Context& context) {
              if (const std::optional<Status> done = records(context)) return *done;
              return Run(*options, *serving, context);
            };
          }};
}

}  // namespace tenon::cli
