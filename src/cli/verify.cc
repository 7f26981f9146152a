// tenon verify: two models, or a model and another runtime's values, operator by operator.
#include <chrono>
#include <cmath>
#include <numeric>

#include "artifact/artifact.h"
#include "base/mapped_file.h"
#include "cli/inputs.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "compile/stages.h"
#include "guard/compare.h"
#include "guard/compare_report.h"
#include "guard/slice.h"
#include "hw/quota.h"

namespace tenon::cli {
namespace {

struct Options {
  ModelOptions model;
  InputOptions inputs;
  std::string other;
  std::string dumps;
  std::string data;
  std::string preprocess;
  size_t samples = 4;
  double bound = 0;
  bool per_op = false;
  bool bisect = false;
  std::string csv;
};

Result<artifact::Program> LoadProgram(const std::string& path, const CompileOptions& options) {
  if (artifact::LooksLikeArtifact(path) || path.ends_with(".tenon")) {
    TENON_ASSIGN_OR_RETURN(artifact::Artifact artifact, artifact::Read(path));
    return std::move(artifact.program);
  }
  hw::Team team(hw::DetectCpuAllowance().threads);
  team.Enter();
  CompileReport report;
  return compile::CompileInMemory(path, options, team, &report);
}

// The same model, not optimised.
CompileOptions Unoptimised(const CompileOptions& options) {
  CompileOptions plain;
  plain.input_shapes = options.input_shapes;
  plain.keep_initializer_inputs = options.keep_initializer_inputs;
  plain.opt_level = 0;
  return plain;
}

Result<std::unique_ptr<guard::Truth>> OpenTruth(const Options& options, const ModelOptions& model, const artifact::Program& a) {
  if (!options.dumps.empty()) return guard::TruthFromDumps(options.dumps);
  if (!options.other.empty()) {
    TENON_ASSIGN_OR_RETURN(const artifact::Program b, LoadProgram(options.other, Unoptimised(model.compile)));
    return guard::TruthFromProgram(b, fmt::format("'{}'", options.other), model.session);
  }
  if (artifact::LooksLikeArtifact(model.model))
    return guard::TruthFromProgram(guard::WithReferenceKernels(a), "the same artifact on reference kernels", model.session);
  TENON_ASSIGN_OR_RETURN(const artifact::Program b, LoadProgram(model.model, Unoptimised(model.compile)));
  return guard::TruthFromProgram(guard::WithReferenceKernels(b), "the same model, not optimised, on reference kernels",
                                 model.session);
}

Result<std::unique_ptr<guard::DataSet>> OpenData(const Options& options, const Session& session, const Context& context) {
  if (!options.data.empty()) {
    guard::DataOptions data;
    data.preprocess = options.preprocess;
    return guard::DataSet::Open(options.data, session, data);
  }
  if (!options.dumps.empty() && options.inputs.inputs.empty()) {
    TENON_ASSIGN_OR_RETURN(auto sample, guard::SampleFromDumps(options.dumps, session.inputs()));
    if (sample) {
      std::vector<guard::Sample> samples = {std::move(*sample)};
      return {guard::DataSet::Of(std::move(samples), "the inputs in the dumps")};
    }
    return Usage("the dumps hold no array for each input of the model; --data or --input gives what they were made from");
  }
  guard::Sample sample;
  TENON_ASSIGN_OR_RETURN(sample.inputs, options.inputs.Load(session, 0, context));
  sample.where = "given inputs";
  const bool all = options.inputs.inputs.size() == session.inputs().size();
  if (!all) context.Note("no --data: inputs that are not given are random");
  std::vector<guard::Sample> samples = {std::move(sample)};
  return {guard::DataSet::Of(std::move(samples), all ? "the inputs given" : "random inputs")};
}

Json ErrorsJson(const guard::Errors& e) {
  return {{"cosine", e.cosine},
          {"max_abs", e.max_abs},
          {"accumulated_relative", e.accumulated_relative},
          {"relative_euclidean", e.relative_euclidean},
          {"kl_divergence", e.kl_divergence},
          {"mean", e.mean},
          {"standard_deviation", e.deviation},
          {"truth_mean", e.truth_mean},
          {"truth_standard_deviation", e.truth_deviation},
          {"mean_abs", e.mean_abs},
          {"rmse", e.rmse},
          {"max_relative", e.max_relative},
          {"mean_relative", e.mean_relative}};
}

Json OpJson(const guard::OpComparison& op) {
  Json row = {
      {"name", op.name},   {"type", op.type},        {"value", op.value}, {"kernel", op.kernel}, {"dtype", DTypeName(op.dtype)},
      {"shape", op.shape}, {"compared", op.compared}};
  if (op.compared) {
    row.update(ErrorsJson(op.errors));
  } else {
    row["reason"] = op.reason;
  }
  row["nan"] = op.nan;
  row["infinite"] = op.infinite;
  row["bound"] = op.bound;
  row["bad"] = op.bad;
  if (op.own_compared) {
    row["own"] = ErrorsJson(op.own);
    row["own"]["truth"] = op.own_truth;
    row["own"]["bad"] = op.own_bad;
  } else if (!op.own_reason.empty()) {
    row["own"] = {{"reason", op.own_reason}};
  }
  return row;
}

std::vector<std::string> TableRow(const guard::OpComparison& op, bool single_ops) {
  const auto cell = [](bool known, double v) { return known ? fmt::format("{:.4g}", v) : std::string("-"); };
  std::string state = op.bad ? "BAD" : "";
  if (op.nan + op.infinite > 0) state += fmt::format("{}{} NaN, {} Inf", state.empty() ? "" : ", ", op.nan, op.infinite);
  if (!op.compared && state.empty()) state = op.reason;
  std::vector<std::string> row = {op.name,
                                  op.type,
                                  op.kernel.empty() ? "-" : op.kernel,
                                  op.compared ? fmt::format("{:.6f}", op.errors.cosine) : "-",
                                  cell(op.compared, op.errors.max_abs),
                                  cell(op.compared, op.errors.rmse),
                                  cell(op.compared, op.errors.relative_euclidean)};
  if (single_ops) row.push_back(op.own_compared ? fmt::format("{:.4g}{}", op.own.Score(), op.own_bad ? " BAD" : "") : "-");
  row.push_back(state);
  return row;
}

// All of a short model; of a long one what is bad and what is worst.
void ShowTable(const guard::Comparison& comparison, bool single_ops, const Context& context) {
  constexpr size_t kMaxRows = 40;
  std::vector<size_t> order(comparison.ops.size());
  std::iota(order.begin(), order.end(), 0);
  const bool cut = order.size() > kMaxRows;
  if (cut) {
    const auto badness = [&](size_t i) {
      const guard::OpComparison& op = comparison.ops[i];
      const double own = single_ops && op.own_compared ? op.own.Score() : 0;
      return op.bad ? std::numeric_limits<double>::infinity() : std::max(op.compared ? op.errors.Score() : -1, own);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return badness(x) > badness(y); });
    order.resize(kMaxRows);
    std::sort(order.begin(), order.end());
  }
  std::vector<std::vector<std::string>> table = {{"node", "operator", "kernel", "cosine", "max abs", "rmse", "rel. distance"}};
  if (single_ops) table[0].emplace_back("own error");
  table[0].emplace_back("");
  for (const size_t i : order) table.push_back(TableRow(comparison.ops[i], single_ops));
  context.Say(Table(table));
  if (cut) context.Say(fmt::format("(the worst {} of {} values; --csv and --json have all)", kMaxRows, comparison.ops.size()));
}

Json VerdictJson(const guard::Verdict& verdict, const guard::Comparison& comparison, const artifact::Program& program) {
  if (verdict.guilty < 0) return {{"name", nullptr}, {"explanation", verdict.explanation}};
  const guard::OpComparison& op = comparison.ops[static_cast<size_t>(verdict.guilty)];
  Json region = Json::array();
  for (const int s : verdict.region) region.push_back(program.steps[static_cast<size_t>(s)].name);
  return {{"name", op.name},
          {"type", op.type},
          {"value", op.value},
          {"error", verdict.own.Score()},
          {"bound", verdict.bound},
          {"region", region},
          {"explanation", verdict.explanation}};
}

Status WriteText(const std::string& path, const std::string& text) {
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

struct Outcome {
  guard::Comparison comparison;
  guard::Verdict verdict;
  int bad = -1;             // index of the operator to report; -1: none
  std::string data;
  std::string reference;
};

Result<Outcome> Compare(const Options& options, const ModelOptions& model, const artifact::Program& program,
                        const Context& context) {
  TENON_ASSIGN_OR_RETURN(auto truth, OpenTruth(options, model, program));
  Progress progress(context);
  guard::CompareOptions compare;
  compare.session = model.session;
  compare.run.cancel = &Interrupted();
  compare.bound = options.bound;
  compare.progress = [&](const std::string& what, size_t done, size_t total) { progress.Update(what, done, total); };
  TENON_ASSIGN_OR_RETURN(const auto comparer, guard::Comparer::Create(program, std::move(truth), compare));
  TENON_ASSIGN_OR_RETURN(const auto data, OpenData(options, comparer->session(), context));
  std::vector<size_t> samples(options.dumps.empty() ? std::min(options.samples, data->size()) : 1);
  std::iota(samples.begin(), samples.end(), 0);
  Outcome out;
  out.data = data->Describe();
  out.reference = comparer->truth().Describe();
  TENON_ASSIGN_OR_RETURN(out.comparison, comparer->Compare(*data, samples));
  if (options.per_op) TENON_RETURN_IF_ERROR(comparer->SingleOps(*data, samples, &out.comparison));
  if (options.bisect) {
    TENON_ASSIGN_OR_RETURN(out.verdict, comparer->Bisect(*data, samples, out.comparison));
  }
  out.bad = out.verdict.guilty >= 0 ? out.verdict.guilty : out.comparison.first_bad;
  const auto& ops = out.comparison.ops;
  for (size_t i = 0; options.per_op && out.bad < 0 && i < ops.size(); ++i) out.bad = ops[i].own_bad ? static_cast<int>(i) : -1;
  return out;
}

Json DocumentOf(const Outcome& out, const Options& options, const artifact::Program& program) {
  const auto name = [&](int i) { return i < 0 ? Json() : Json(out.comparison.ops[static_cast<size_t>(i)].name); };
  Json ops = Json::array();
  for (const guard::OpComparison& op : out.comparison.ops) ops.push_back(OpJson(op));
  Json document = {{"ops", ops},
                   {"first_bad", name(out.bad)},
                   {"first_not_finite", name(out.comparison.first_not_finite)},
                   {"compared", out.comparison.compared},
                   {"samples", out.comparison.samples},
                   {"data", out.data},
                   {"reference", out.reference}};
  if (options.bisect) document["guilty"] = VerdictJson(out.verdict, out.comparison, program);
  return document;
}

void Show(const Outcome& out, const Options& options, const Context& context) {
  ShowTable(out.comparison, options.per_op, context);
  context.Say(fmt::format("{} of {} values compared with {}; data: {}", out.comparison.compared, out.comparison.ops.size(),
                          out.reference, out.data));
  if (out.comparison.first_not_finite >= 0) {
    const auto& op = out.comparison.ops[static_cast<size_t>(out.comparison.first_not_finite)];
    context.Say(fmt::format("first NaN or infinity: '{}' ({})", op.name, op.type));
  }
  if (out.bad < 0) context.Say("all within their bounds");
}

// Why the operator that is reported is.
std::string Explanation(const Outcome& out, const Options& options) {
  const guard::OpComparison& op = out.comparison.ops[static_cast<size_t>(out.bad)];
  if (out.verdict.guilty >= 0) return out.verdict.explanation;
  if (!op.bad) return fmt::format("on right inputs its error is {:.3g}", op.own.Score());
  if (!op.reason.empty()) return op.reason;
  const std::string error = fmt::format("error {:.3g}, bound {:.3g}", op.errors.Score(), op.bound);
  return options.bisect ? error + "; " + out.verdict.explanation : error;
}

Status Run(const Options& options, Context& context) {
  ModelOptions model = options.model;
  TENON_RETURN_IF_ERROR(model.Finish(context));
  if (!options.other.empty() && !options.dumps.empty()) return Usage("a second model and --dumps; one of them is compared with");
  TENON_ASSIGN_OR_RETURN(const artifact::Program program, LoadProgram(model.model, model.compile));
  TENON_ASSIGN_OR_RETURN(const Outcome out, Compare(options, model, program, context));
  if (!options.csv.empty()) TENON_RETURN_IF_ERROR(WriteText(options.csv, guard::ToCsv(out.comparison, options.per_op)));
  Show(out, options, context);
  const auto& ops = out.comparison.ops;
  const bool unmatched = std::any_of(ops.begin(), ops.end(), [](const auto& op) { return op.truth_dtype == DType::kUndefined; });
  const bool random = std::any_of(ops.begin(), ops.end(), [](const auto& op) { return op.reason == "random"; });
  if (out.comparison.compared == 0 && out.bad < 0 && unmatched && !random)
    return BadInput("no value of '{}' has a counterpart by name in {}", model.model, out.reference);
  const Json document = DocumentOf(out, options, program);
  if (out.bad < 0) {
    context.Document(document);
    return Status::Ok();
  }
  context.details = document;
  const guard::OpComparison& op = out.comparison.ops[static_cast<size_t>(out.bad)];
  return {Code::kGuardRefused,
          fmt::format("operator '{}' ({}) gives wrong values; {}", op.name, op.type, Explanation(out, options))};
}

}  // namespace

Command Make_verify() {
  return {"verify", "compare a model with another one operator by operator",
          "tenon verify model.onnx --shape x=1x3x48x320 --bisect", [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            app.add_option("A", options->model.model, "The model judged: .onnx, or a compiled .tenon")->required();
            app.add_option("B", options->other, "What it is compared with; none: itself, not optimised, on reference kernels");
            app.add_option("--dumps", options->dumps,
                           "Compare with another runtime's values: an .npz, or a folder of .npy, by tensor name");
            app.add_option("--data", options->data, "Samples: a folder or file of .npz, .npy, .jsonl or pictures")
                ->envname("TENON_DATA");
            app.add_option("--preprocess", options->preprocess, "How pictures are prepared (a YAML or JSON file)")
                ->envname("TENON_PREPROCESS");
            app.add_option("--samples", options->samples, "Samples to compare on, at most")
                ->capture_default_str()
                ->check(CLI::Range(1, 1000000));
            options->inputs.Add(app);
            app.add_flag("--per-op", options->per_op, "Run each operator alone on right inputs, too");
            app.add_flag("--bisect", options->bisect, "Find the operator that is to blame");
            app.add_option("--bound", options->bound, "Largest error allowed (0: by element type)")
                ->capture_default_str()
                ->check(CLI::NonNegativeNumber);
            app.add_option("--csv", options->csv, "Write msaccucmp's columns to this file");
            options->model.AddCompile(app);
            options->model.AddSession(app);
            return [options](Context& context) { return Run(*options, context); };
          }};
}

}  // namespace tenon::cli
