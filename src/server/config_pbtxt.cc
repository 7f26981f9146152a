// config.pbtxt and the same as JSON, read by protobuf's own parsers.
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include "base/status.h"
#include "kserve.pb.h"
#include "serve/steps/step.h"
#include "server/config_fields.h"
#include "server/config_files.h"
#include "server/config_queue.h"
#include "server/config_ragged.h"

namespace tenon::server {
namespace {

constexpr int kMaxBatch = 4096;

// Of messages that nobody here reads all fields are unknown; of others that is an error.
bool MeansUnread(const std::string& message) {
  constexpr std::string_view kBefore = "Message type \"";
  if (!message.starts_with(kBefore)) return false;
  const std::string name = message.substr(kBefore.size(), message.find('"', kBefore.size()) - kBefore.size());
  const auto* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(name);
  return type != nullptr && IsUnread(*type);
}

class Errors final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (first.empty()) first = fmt::format("line {}, column {}; {}", line + 1, column + 1, message);
  }
  void AddWarning(int line, int column, const std::string& message) override {
    if (!MeansUnread(message)) AddError(line, column, message);
  }
  std::string first;
};

Status ApplyVersions(const inference::ModelVersionPolicy& p, ModelConfig* c) {
  if (p.has_all()) c->versions_latest = 0;
  if (p.has_latest()) c->versions_latest = static_cast<int>(std::clamp<uint32_t>(p.latest().num_versions(), 1, 1000));
  if (p.has_specific()) {
    c->versions.assign(p.specific().versions().begin(), p.specific().versions().end());
    std::sort(c->versions.begin(), c->versions.end());
  }
  return Status::Ok();
}

Status ApplyInstances(const inference::ModelConfig& m, ModelConfig* c) {
  int count = 0;
  for (const auto& group : m.instance_group()) {
    if (group.kind() == inference::ModelInstanceGroup::KIND_GPU)
      return Unsupported("instance_group of KIND_GPU; allowed: KIND_CPU, KIND_AUTO");
    if (group.count() < 0 || group.count() > 1024) return BadInput("instance_group; count {}; allowed: 1..1024", group.count());
    count += std::max(1, group.count());
  }
  if (count > 0) c->instances = count;
  return Status::Ok();
}

constexpr std::string_view kStepPrefix = "tenon.";   // a model of this name is a built-in step

// Steps have no parameters in Triton's format: those of the ensemble named "KIND.PARAMETER" go to the steps of that kind.
std::map<std::string, std::string> StepParameters(const inference::ModelConfig& m, const std::string& kind) {
  std::map<std::string, std::string> parameters;
  for (const auto& [key, value] : m.parameters()) {
    if (key.size() > kind.size() && key.starts_with(kind) && key[kind.size()] == '.')
      parameters[key.substr(kind.size() + 1)] = value.string_value();
  }
  return parameters;
}

Status ApplyEnsemble(const inference::ModelConfig& m, ModelConfig* c) {
  for (const auto& step : m.ensemble_scheduling().step()) {
    EnsemblePart part;
    if (step.model_name().starts_with(kStepPrefix)) {
      part.step = step.model_name().substr(kStepPrefix.size());
      part.parameters = StepParameters(m, part.step);
    } else {
      part.model = step.model_name();
      if (part.model.empty()) return BadInput("ensemble_scheduling; a step without model_name");
    }
    if (step.model_version() > 0) part.version = std::to_string(step.model_version());
    part.inputs.insert(step.input_map().begin(), step.input_map().end());
    part.outputs.insert(step.output_map().begin(), step.output_map().end());
    c->ensemble.parts.push_back(std::move(part));
  }
  for (const auto& output : m.output()) c->ensemble.outputs.push_back(output.name());
  return Status::Ok();
}

// platform "tenon_step": a built-in step as a model of its own, with its own names of inputs and outputs.
Status ApplyStep(const inference::ModelConfig& m, ModelConfig* c) {
  EnsemblePart part;
  for (const auto& [key, value] : m.parameters()) part.parameters[key] = value.string_value();
  part.step = part.parameters["step"];
  part.parameters.erase("step");
  const serve::StepKind* kind = serve::FindStepKind(part.step);
  if (kind == nullptr) return BadInput("parameters; step is '{}'; allowed: {}", part.step, serve::StepKindNames());
  for (const serve::Port& p : kind->inputs) {
    if (!p.optional) part.inputs[std::string(p.name)] = p.name;
  }
  for (const serve::Port& p : kind->outputs) {
    const std::string name(p.name);
    // A value that comes in cannot come out under the same name.
    part.outputs[name] = part.inputs.count(name) > 0 ? name + "_out" : name;
  }
  c->ensemble.parts.push_back(std::move(part));
  return Status::Ok();
}

Status Apply(const inference::ModelConfig& m, ModelConfig* config) {
  TENON_ASSIGN_OR_RETURN(config->ignored, FieldsWithoutEffect(m));
  const std::string& file = m.default_model_filename();
  if (!file.empty() && file != "model.onnx" && file != "model.tenon")
    return Unsupported("default_model_filename is '{}'; allowed: model.onnx, model.tenon", file);
  if (!m.name().empty()) config->name = m.name();
  if (m.max_batch_size() < 0 || m.max_batch_size() > kMaxBatch) {
    return BadInput("max_batch_size is {}; allowed: 0..{}", m.max_batch_size(), kMaxBatch);
  }
  config->max_batch = m.max_batch_size();
  if (m.has_dynamic_batching()) TENON_RETURN_IF_ERROR(ApplyBatching(m.dynamic_batching(), config));
  TENON_RETURN_IF_ERROR(ApplyWarmUp(m, config));
  TENON_RETURN_IF_ERROR(ApplyRagged(m, config));
  TENON_RETURN_IF_ERROR(ApplyParameters(m, config));
  TENON_RETURN_IF_ERROR(ApplyVersions(m.version_policy(), config));
  TENON_RETURN_IF_ERROR(ApplyInstances(m, config));
  for (const auto& [key, value] : m.parameters()) config->parameters[key] = value.string_value();
  if (m.has_ensemble_scheduling()) TENON_RETURN_IF_ERROR(ApplyEnsemble(m, config));
  if (m.platform() == "ensemble" && config->ensemble.empty())
    return BadInput("platform ensemble; ensemble_scheduling has no step");
  if (m.platform() == "tenon_step") TENON_RETURN_IF_ERROR(ApplyStep(m, config));
  if (!config->ensemble.empty()) config->max_batch = 0;   // its requests do not join; those to its models do
  return Status::Ok();
}

}  // namespace

Status ParsePbtxt(const std::string& text, ModelConfig* config) {
  if (text.size() > kMaxSettingsBytes) return BadInput("{} bytes; settings have at most {}", text.size(), kMaxSettingsBytes);
  inference::ModelConfig m;
  Errors errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.AllowUnknownField(true);   // then they are warnings
  parser.SetRecursionLimit(32);
  if (!parser.ParseFromString(text, &m) || !errors.first.empty())
    return BadInput("{}", errors.first.empty() ? "no valid text of a ModelConfig" : errors.first);
  return Apply(m, config);
}

Status ParseConfigJson(const std::string& text, ModelConfig* config) {
  if (text.size() > kMaxSettingsBytes) return BadInput("{} bytes; settings have at most {}", text.size(), kMaxSettingsBytes);
  inference::ModelConfig m;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, &m, options);
  if (!parsed.ok()) return BadInput("{}", parsed.message().as_string());
  TENON_RETURN_IF_ERROR(CheckJsonFields(text));
  return Apply(m, config);
}

}  // namespace tenon::server
