// tenon compile: model file to artifact, with a report.
#include <filesystem>

#include "cli/model_options.h"
#include "compile/stages.h"
#include "hw/quota.h"
#include "import/import.h"

namespace tenon::cli {
namespace {

struct Options {
  ModelOptions model;
  std::string output;
  bool check = false;
};

Json ToJson(const CompileReport& report) {
  Json passes = Json::array();
  for (const PassReport& p : report.passes) {
    passes.push_back({{"name", p.name}, {"ms", p.ms}, {"changes", p.changes}, {"refusals", p.refusals}});
  }
  Json lowered = Json::array();
  for (const LoweredOp& o : report.lowered) {
    lowered.push_back({{"name", o.name}, {"type", o.op}, {"precision", o.precision}, {"chosen", o.chosen}});
  }
  return {{"passes", passes},
          {"ops", report.ops},
          {"lowered", lowered},
          {"notes", report.notes},
          {"import_ms", report.import_ms},
          {"total_ms", report.total_ms}};
}

// A line for each operator of the model, then each node that cannot run; the first of those is the error.
Status Check(const Options& options, Context& context) {
  TENON_ASSIGN_OR_RETURN(compile::Imported model, compile::Read(options.model.model, options.model.compile));
  const std::vector<import::NodeSupport> nodes = import::Support(model.graph);
  Json rows = Json::array();
  std::map<std::pair<std::string, std::string>, std::pair<int, bool>> ops;
  std::vector<std::vector<std::string>> missing = {{"node", "operator", "domain"}};
  for (const auto& n : nodes) {
    rows.push_back({{"name", n.name}, {"op", n.op}, {"domain", n.domain}, {"supported", n.supported}});
    auto& [count, supported] = ops[{n.domain, n.op}];
    ++count;
    supported = n.supported;
    if (!n.supported) missing.push_back({n.name, n.op, n.domain});
  }
  std::vector<std::vector<std::string>> table = {{"operator", "domain", "nodes", "state"}};
  for (const auto& [key, row] : ops) {
    table.push_back({key.second, key.first, std::to_string(row.first), row.second ? "supported" : "NOT SUPPORTED"});
  }
  context.Say(Table(table));
  if (missing.size() > 1) context.Say(Table(missing));
  // Also what the nodes make of each other: types, shapes, attributes.
  context.details = {{"nodes", rows}};
  TENON_RETURN_IF_ERROR(compile::Ready(options.model.model, options.model.compile, &model));
  context.Say("supported: every operator of the model runs here");
  context.Document({{"supported", true}, {"nodes", rows}});
  return Status::Ok();
}

Status Run(Options& options, Context& context) {
  TENON_RETURN_IF_ERROR(options.model.Finish(context));
  if (options.check) return Check(options, context);
  if (options.output.empty()) return Usage("no output given; -o OUT.tenon");
  TENON_ASSIGN_OR_RETURN(const CompileReport report, Compile(options.model.model, options.output, options.model.compile));
  std::error_code error;
  const auto size = std::filesystem::file_size(options.output, error);
  Json document = ToJson(report);
  document["file"] = options.output;
  document["bytes"] = size;
  context.Document(document);
  std::vector<std::vector<std::string>> table = {{"pass", "changes", "ms"}};
  for (const PassReport& p : report.passes) {
    if (p.changes > 0) table.push_back({p.name, std::to_string(p.changes), fmt::format("{:.2f}", p.ms)});
  }
  context.Say(Table(table));
  if (!report.lowered.empty()) {
    std::vector<std::vector<std::string>> lowered = {{"lowered node", "operator", "precision", "why"}};
    for (const LoweredOp& o : report.lowered) {
      lowered.push_back({o.name, o.op, o.precision, o.chosen ? "chosen" : "between lowered ones"});
    }
    context.Say(Table(lowered));
  }
  for (const std::string& note : report.notes) context.Say("note: " + note);
  int ops = 0;
  for (const auto& [op, count] : report.ops) ops += count;
  context.Say(fmt::format("{}: {} operators, {}, {:.0f} ms", options.output, ops, Bytes(size), report.total_ms));
  return Status::Ok();
}

}  // namespace

Command Make_compile() {
  return {"compile", "compile a model into an artifact", "tenon compile model.onnx -o model.tenon --input-shape x:1..8,3,48,w",
          [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            options->model.AddModel(app);
            app.add_option("-o,--output", options->output, "The artifact to write");
            options->model.AddCompile(app);
            app.add_flag("--external-weights", options->model.compile.external_weights, "Weights in OUT.tenon.weights");
            app.add_flag("!--no-packed-weights", options->model.compile.packed_weights,
                         "Half the file; the weights are packed for the machine each time it is opened");
            app.add_flag("--check", options->check, "Only check that the model is supported; writes nothing");
            return [options](Context& context) { return Run(*options, context); };
          }};
}

}  // namespace tenon::cli
