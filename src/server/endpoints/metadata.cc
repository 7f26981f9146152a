// What the server and its models are: metadata, configuration, statistics.
#include "base/version.h"
#include "server/config_message.h"
#include "server/context.h"
#include "server/json_text.h"
#include "server/model_json.h"

namespace tenon::server {
namespace {

std::string VersionOf(const Call& call) {
  return call.args.size() > 1 ? call.args[1] : "";
}

// Runs `write` on the model's description, or says why there is none.
void WithModel(const Call& call, std::string (*write)(const ModelDescription&)) {
  const auto model = call.context.models.Describe(call.args[0], VersionOf(call));
  if (!model.ok()) return call.ReplyError(Outcome::kNotFound, model.status().message());
  call.ReplyJson(write(*model));
}

}  // namespace

void ServerMetadata(Call& call) {
  std::string json = fmt::format("{{\"name\":\"tenon\",\"version\":\"{}\",\"extensions\":[", kVersionString);
  for (const std::string& name : Extensions()) {
    if (json.back() != '[') json += ',';
    AppendJsonString(name, &json);
  }
  call.ReplyJson(json + "]}");
}

void ModelMetadata(Call& call) {
  WithModel(call, MetadataJson);
}
void ModelConfiguration(Call& call) {
  WithModel(call, ConfigJson);
}

void Statistics(Call& call) {
  const auto model = call.context.models.Describe(call.args[0], VersionOf(call));
  if (!model.ok()) return call.ReplyError(Outcome::kNotFound, model.status().message());
  call.ReplyJson(StatisticsJson(call.context.models.Statistics(call.args[0], VersionOf(call))));
}

void AllStatistics(Call& call) {
  call.ReplyJson(StatisticsJson(call.context.models.Statistics()));
}

}  // namespace tenon::server
