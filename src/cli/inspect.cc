// tenon inspect: what a model is, at any stage from file to kernels.
#include "artifact/artifact.h"
#include "base/dtype.h"
#include "cli/inputs.h"
#include "cli/model_options.h"
#include "compile/stages.h"
#include "hw/quota.h"
#include "ir/text.h"

namespace tenon::cli {
namespace {

// A tokenizer is bytes, not text: how many is all that is shown.
void HideBytes(std::map<std::string, std::string>* metadata) {
  const auto it = metadata->find("tenon.tokenizer");
  if (it != metadata->end()) it->second = fmt::format("({} bytes)", it->second.size());
}

struct Options {
  ModelOptions model;
  InputOptions inputs;
  std::string stage;
  bool text = false;
};

Json DimJson(const std::string& dim) {
  if (!dim.empty() && dim.size() < 18 && dim.find_first_not_of("0123456789") == std::string::npos) return std::stoll(dim);
  return dim;
}

Json InfoJson(const TensorInfo& info) {
  Json shape = Json::array();
  for (const std::string& d : info.dims) shape.push_back(DimJson(d));
  Json row = {{"name", info.name}, {"dtype", DTypeName(info.dtype)}, {"shape", info.has_rank ? shape : Json()}};
  if (info.is_sequence) row["sequence"] = true;
  return row;
}

TensorInfo InfoOf(const std::string& name, DType dtype, bool is_sequence, const SymShape& shape) {
  TensorInfo info{name, dtype, is_sequence, shape.has_rank(), {}};
  for (const Dim& d : shape.dims()) info.dims.push_back(d.ToString());
  return info;
}

std::string InfoText(const TensorInfo& info) {
  std::string shape;
  for (const std::string& d : info.dims) shape += (shape.empty() ? "" : ", ") + d;
  return fmt::format("{}  {}{}  [{}]", info.name, info.is_sequence ? "sequence of " : "", DTypeName(info.dtype),
                     info.has_rank ? shape : "...");
}

void CountSteps(const artifact::Program& p, std::map<std::string, int>* ops) {
  for (const auto& s : p.steps) {
    ++(*ops)[s.op];
    for (const auto& body : s.bodies) CountSteps(body, ops);
  }
}

// What all stages show.
struct Summary {
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  std::map<std::string, int> ops;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> provenance;
  Json passes = Json::array();
  Json guard;   // null: the model was not tuned under the guard
  std::string packed_for;      // of an artifact; empty: no packed weights
  uint64_t packed_bytes = 0;
};

Summary SummaryOf(const ir::Graph& g) {
  Summary s;
  const auto info = [&](ir::ValueId id) {
    const ir::Value& v = g.value(id);
    return InfoOf(v.name, v.dtype, v.is_sequence, v.shape);
  };
  for (ir::ValueId v : g.inputs()) s.inputs.push_back(info(v));
  for (ir::ValueId v : g.outputs()) s.outputs.push_back(info(v));
  s.ops = compile::CountOps(g);
  s.metadata = g.metadata;
  HideBytes(&s.metadata);
  return s;
}

Summary SummaryOf(const artifact::Artifact& a) {
  Summary s;
  const auto info = [&](artifact::ValueIndex i) {
    const auto& v = a.program.values[static_cast<size_t>(i)];
    return InfoOf(v.name, v.dtype, v.is_sequence, v.shape);
  };
  for (auto v : a.program.inputs) s.inputs.push_back(info(v));
  for (auto v : a.program.outputs) s.outputs.push_back(info(v));
  CountSteps(a.program, &s.ops);
  s.metadata = a.program.metadata;
  HideBytes(&s.metadata);
  s.provenance = a.provenance;
  s.packed_for = a.packed_for;
  s.packed_bytes = a.packed_bytes;
  const Json report = Json::parse(a.report, nullptr, false);
  if (report.is_object() && report.contains("passes")) s.passes = report["passes"];
  if (report.is_object() && report.contains("guard")) s.guard = report["guard"];
  return s;
}

Json ToJson(const Summary& s) {
  Json document = {
      {"inputs", Json::array()}, {"outputs", Json::array()}, {"ops", s.ops}, {"passes", s.passes}, {"metadata", s.metadata}};
  for (const auto& i : s.inputs) document["inputs"].push_back(InfoJson(i));
  for (const auto& o : s.outputs) document["outputs"].push_back(InfoJson(o));
  if (!s.provenance.empty()) document["provenance"] = s.provenance;
  if (s.packed_bytes > 0) document["packed_weights"] = {{"for", s.packed_for}, {"bytes", s.packed_bytes}};
  return document;
}

void Print(const Summary& s, const Context& context) {
  for (const auto& i : s.inputs) context.Say("input   " + InfoText(i));
  for (const auto& o : s.outputs) context.Say("output  " + InfoText(o));
  std::vector<std::vector<std::string>> table = {{"operator", "count"}};
  for (const auto& [op, count] : s.ops) table.push_back({op, std::to_string(count)});
  context.Say("\n" + Table(table));
  constexpr size_t kShown = 60;
  for (const auto& [key, value] : s.metadata) {
    size_t cut = std::min(kShown, value.size());
    while (cut > 0 && cut < value.size() && (static_cast<unsigned char>(value[cut]) & 0xC0) == 0x80)
      --cut;   // whole UTF-8 characters
    std::string shown = value.substr(0, cut);
    for (char& c : shown) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    context.Say(
        fmt::format("metadata {} = {}{}", key, shown, value.size() > kShown ? fmt::format("... ({} bytes)", value.size()) : ""));
  }
  for (const auto& [key, value] : s.provenance) context.Say(fmt::format("{}: {}", key, value));
  if (s.packed_bytes > 0) context.Say(fmt::format("packed weights: {} bytes for {}", s.packed_bytes, s.packed_for));
}

// Stages that need a session: the plan for a shape, and kernels.
Status InspectSession(const Options& options, Json document, const Context& context) {
  ModelOptions model = options.model;
  TENON_ASSIGN_OR_RETURN(auto session, model.Open(context));
  TENON_ASSIGN_OR_RETURN(const auto inputs, options.inputs.Load(*session, 0, context));
  RunOptions run;
  run.cancel = &Interrupted();
  if (options.stage == "plan") TENON_RETURN_IF_ERROR(session->Run(inputs, run).status());
  const MemoryReport m = session->memory();
  document["memory"] = {{"weights", m.weights}, {"packed", m.packed},   {"arena_before", m.arena_before},
                        {"arena", m.arena},     {"scratch", m.scratch}, {"outputs", m.outputs},
                        {"charged", m.charged}};
  document["kernels"] = Json::array();
  std::vector<std::vector<std::string>> table = {{"node", "operator", "kernel", "precision", "refused"}};
  for (const KernelReport& k : session->kernels()) {
    Json refused = Json::array();
    std::string reasons;
    for (const auto& [kernel, reason] : k.refused) {
      refused.push_back({{"kernel", kernel}, {"reason", reason}});
      reasons += (reasons.empty() ? "" : "; ") + kernel + ": " + reason;
    }
    document["kernels"].push_back(
        {{"node", k.node}, {"op", k.op}, {"kernel", k.kernel}, {"precision", k.precision}, {"refused", refused}});
    table.push_back({k.node, k.op, k.kernel.empty() ? "-" : k.kernel, k.precision, reasons});
  }
  context.Document(document);
  if (options.stage == "kernels") {
    context.Say(Table(table));
  } else {
    context.Say(Table({{"weights", Bytes(m.weights)},
                       {"packed weights", Bytes(m.packed)},
                       {"activations without reuse", Bytes(m.arena_before)},
                       {"activations with reuse", Bytes(m.arena)},
                       {"largest scratch", Bytes(m.scratch)},
                       {"outputs", Bytes(m.outputs)}}));
  }
  return Status::Ok();
}

// What the accuracy guard decided when the artifact was tuned.
Status ShowGuard(const Summary& s, Json document, const Context& context) {
  document["guard"] = s.guard;
  context.Document(document);
  if (!s.guard.is_object()) {
    context.Say("not tuned under the accuracy guard: every operator computes as the model says, or as --precision said");
    return Status::Ok();
  }
  const Json names = Json::array();
  std::vector<std::vector<std::string>> table = {{"node", "operator", "precision"}};
  for (const char* list : {"lowered", "kept_f32"}) {
    for (const Json& op : s.guard.value(list, names))
      table.push_back({op.value("name", ""), op.value("type", ""), op.value("precision", "float32")});
  }
  context.Say(Table(table));
  context.Say(s.guard.value("verdict", ""));
  return Status::Ok();
}

Status Run(Options& options, Context& context) {
  TENON_RETURN_IF_ERROR(options.model.Finish(context));
  const bool compiled = artifact::LooksLikeArtifact(options.model.model) || options.model.model.ends_with(".tenon");
  Summary summary;
  if (compiled) {
    if (options.stage == "import")
      return Usage("an artifact holds the optimised model only; --stage import needs the source model");
    TENON_ASSIGN_OR_RETURN(const artifact::Artifact a, artifact::Read(options.model.model));
    summary = SummaryOf(a);
  } else {
    TENON_ASSIGN_OR_RETURN(compile::Imported imported, compile::Import(options.model.model, options.model.compile));
    if (!options.stage.empty() && options.stage != "import") {
      hw::Team team(hw::DetectCpuAllowance().threads);
      team.Enter();
      CompileReport report;
      TENON_RETURN_IF_ERROR(compile::Optimize(&imported, options.model.compile, team, &report));
      summary = SummaryOf(imported.graph);
      for (const PassReport& p : report.passes) {
        summary.passes.push_back({{"name", p.name}, {"ms", p.ms}, {"changes", p.changes}, {"refusals", p.refusals}});
      }
    } else {
      summary = SummaryOf(imported.graph);
    }
    if (options.text) {
      context.Say(ir::Print(imported.graph));
      return Status::Ok();
    }
  }
  const Json document = ToJson(summary);
  if (options.stage == "plan" || options.stage == "kernels") return InspectSession(options, document, context);
  if (options.stage == "guard") return ShowGuard(summary, document, context);
  context.Document(document);
  Print(summary, context);
  return Status::Ok();
}

}  // namespace

Command Make_inspect() {
  return {"inspect", "show a model: inputs, operators, passes, memory plan, kernels", "tenon inspect model.onnx --stage kernels",
          [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            options->model.AddModel(app);
            app.add_option("--stage", options->stage, "import, optimized, plan, kernels or guard")
                ->check(CLI::IsMember({"import", "optimized", "plan", "kernels", "guard"}));
            app.add_flag("--text", options->text, "Print the whole graph as text");
            options->inputs.Add(app);
            options->model.AddCompile(app);
            options->model.AddSession(app);
            return [options](Context& context) { return Run(*options, context); };
          }};
}

}  // namespace tenon::cli
