#include "compile/stages.h"

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "compile/implmode.h"
#include "compile/input_shapes.h"
#include "compile/lower.h"
#include "compile/precision.h"
#include "hw/isa.h"
#include "import/import.h"
#include "ops/op.h"
#include "passes/pipeline.h"
#include "tensor/gguf.h"

namespace tenon::compile {
namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void Count(const ir::Graph& graph, std::map<std::string, int>* counts) {
  for (size_t i = 0; i < graph.num_node_slots(); ++i) {
    const ir::Node& node = graph.node(static_cast<ir::NodeId>(i));
    if (node.dead) continue;
    ++(*counts)[node.op];
    for (const auto& body : node.bodies) Count(*body, counts);
  }
}

}  // namespace

Result<Imported> Read(const std::string& model, const CompileOptions& options) {
  Imported out;
  const import::LanguageModelOptions language_model = {.kv_cache = options.kv_cache, .weights = options.weights};
  if (LooksLikeGguf(model)) {
    TENON_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(model));
    auto graph = import::ImportGguf(file, language_model);
    if (!graph.ok()) return std::move(graph).TakeStatus().Within(fmt::format("model '{}'", model));
    out.graph = std::move(graph).value();
    return out;
  }
  std::error_code error;
  if (std::filesystem::is_directory(model, error)) {
    auto graph = import::ImportHf(model, language_model);
    if (!graph.ok()) return std::move(graph).TakeStatus().Within(fmt::format("model '{}'", model));
    out.graph = std::move(graph).value();
    return out;
  }
  import::ImportOptions import_options;
  import_options.keep_initializer_inputs = options.keep_initializer_inputs;
  import::ImportReport report;
  TENON_ASSIGN_OR_RETURN(out.graph, import::ImportOnnx(model, import_options, &report));
  out.input_defaults = std::move(report.input_defaults);
  out.notes = std::move(report.notes);
  return out;
}

Status Ready(const std::string& model, const CompileOptions& options, Imported* imported) {
  TENON_RETURN_IF_ERROR(ApplyInputShapes(options.input_shapes, &imported->graph, &imported->ranges));
  TENON_RETURN_IF_ERROR(import::CheckSupported(imported->graph).Within(fmt::format("model '{}'", model)));
  SinkConstantsIntoBodies(imported->graph);
  return ops::InferGraph(imported->graph).Within(fmt::format("model '{}'", model));
}

Result<Imported> Import(const std::string& model, const CompileOptions& options) {
  const auto start = Clock::now();
  TENON_ASSIGN_OR_RETURN(Imported out, Read(model, options));
  TENON_RETURN_IF_ERROR(CheckImplMode(options, out.graph));
  TENON_RETURN_IF_ERROR(Ready(model, options, &out));
  out.ms = MsSince(start);
  return out;
}

Status Optimize(Imported* imported, const CompileOptions& options, passes::PassContext context, CompileReport* report) {
  TENON_ASSIGN_OR_RETURN(context.isa, hw::ActiveIsa());
  context.opt_level = options.opt_level;
  context.disabled.insert(options.disabled_passes.begin(), options.disabled_passes.end());
#ifndef NDEBUG
  context.verify = true;
#endif
  passes::PipelineReport pipeline;
  TENON_RETURN_IF_ERROR(passes::RunPipeline(imported->graph, context, &pipeline));
  for (auto& p : pipeline.passes) report->passes.push_back({p.name, p.ms, p.changes, std::move(p.refusals)});
  ApplyImplMode(options, &imported->graph);
  return Status::Ok();
}

Status Optimize(Imported* imported, const CompileOptions& options, hw::Team& team, CompileReport* report) {
  TENON_ASSIGN_OR_RETURN(const PrecisionWish wish, ReadPrecision(options));
  TENON_RETURN_IF_ERROR(CheckKeptNodes(wish.policy, imported->graph));
  passes::PrecisionOutcome outcome;
  passes::PassContext context;
  context.team = &team;
  context.precision = wish.policy;
  context.precision_outcome = &outcome;
  TENON_RETURN_IF_ERROR(Optimize(imported, options, std::move(context), report));
  TENON_RETURN_IF_ERROR(CheckObeyed(wish, outcome));
  for (std::string& note : RefusalNotes(outcome)) report->notes.push_back(std::move(note));
  for (const auto& n : outcome.lowered) report->lowered.push_back({n.name, n.op, std::string(DTypeName(n.precision)), n.white});
  return Status::Ok();
}

Result<artifact::Program> Finish(const Imported& imported, CompileReport* report) {
  TENON_ASSIGN_OR_RETURN(artifact::Program program, Lower(imported.graph, imported.input_defaults));
  program.ranges = imported.ranges;
  report->ops = CountOps(imported.graph);
  TENON_RETURN_IF_ERROR(artifact::Validate(program));
  return program;
}

Result<artifact::Program> CompileInMemory(const std::string& model, const CompileOptions& options, hw::Team& team,
                                          CompileReport* report) {
  const auto start = Clock::now();
  TENON_ASSIGN_OR_RETURN(Imported imported, Import(model, options));
  report->import_ms = imported.ms;
  for (const auto& [op, count] : CountOps(imported.graph)) report->imported_ops += count;
  report->notes = imported.notes;
  TENON_RETURN_IF_ERROR(Optimize(&imported, options, team, report));
  TENON_ASSIGN_OR_RETURN(artifact::Program program, Finish(imported, report));
  report->total_ms = MsSince(start);
  return program;
}

std::map<std::string, int> CountOps(const ir::Graph& graph) {
  std::map<std::string, int> counts;
  Count(graph, &counts);
  return counts;
}

std::string ReportToJson(const CompileReport& report) {
  nlohmann::json passes = nlohmann::json::array();
  for (const PassReport& p : report.passes) {
    // No times: the same model must give the same artifact, byte for byte.
    passes.push_back({{"name", p.name}, {"changes", p.changes}, {"refusals", p.refusals}});
  }
  nlohmann::json lowered = nlohmann::json::array();
  for (const LoweredOp& o : report.lowered) lowered.push_back({{"name", o.name}, {"op", o.op}, {"precision", o.precision}});
  return nlohmann::json{{"passes", passes}, {"ops", report.ops}, {"lowered", lowered}, {"notes", report.notes}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tenon::compile
