#include "server/config_message.h"

#include "server/config_fields.h"
#include "server/config_queue.h"
#include "server/config_ragged.h"
#include "server/model_json.h"

namespace tenon::server {
namespace {

template <typename List>
void AddTensors(const ModelDescription& model, const std::vector<TensorInfo>& infos, List* list) {
  for (const TensorInfo& i : infos) {
    auto* t = list->Add();
    t->set_name(i.name);
    t->set_data_type(ConfigTypeOf(i.dtype));
    for (int64_t extent : WireDims(i, model.config)) t->add_dims(extent);
  }
}

void AddVersions(const ModelConfig& c, inference::ModelVersionPolicy* policy) {
  if (!c.versions.empty()) {
    policy->mutable_specific()->mutable_versions()->Add(c.versions.begin(), c.versions.end());
  } else if (c.versions_latest == 0) {
    policy->mutable_all();
  } else {
    policy->mutable_latest()->set_num_versions(static_cast<uint32_t>(c.versions_latest));
  }
}

}  // namespace

inference::ModelConfig ConfigMessage(const ModelDescription& model) {
  const ModelConfig& c = model.config;
  inference::ModelConfig message;
  message.set_name(model.name);
  message.set_platform(PlatformOf(c));
  if (c.ensemble.empty()) message.set_backend(kPlatform);
  AddVersions(c, message.mutable_version_policy());
  message.set_max_batch_size(c.max_batch.value_or(0));
  AddTensors(model, model.inputs, message.mutable_input());
  AddTensors(model, model.outputs, message.mutable_output());
  RaggedToMessage(c, &message);
  auto* group = message.add_instance_group();
  group->set_name(model.name);
  group->set_count(c.instances);
  group->set_kind(inference::ModelInstanceGroup::KIND_CPU);
  if (c.ensemble.empty()) BatchingToMessage(c, message.mutable_dynamic_batching());
  for (const EnsemblePart& part : c.ensemble.parts) {
    auto* step = message.mutable_ensemble_scheduling()->add_step();
    step->set_model_name(PartName(part));
    step->set_model_version(-1);
    step->mutable_input_map()->insert(part.inputs.begin(), part.inputs.end());
    step->mutable_output_map()->insert(part.outputs.begin(), part.outputs.end());
  }
  WarmUpToMessage(c, &message);
  for (const auto& [key, value] : c.parameters) (*message.mutable_parameters())[key].set_string_value(value);
  return message;
}

std::string ConfigJson(const ModelDescription& model) {
  return ToJson(ConfigMessage(model));
}

}  // namespace tenon::server
