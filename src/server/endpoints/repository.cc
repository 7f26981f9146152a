// The model repository: what is there, loading, unloading.
#include <nlohmann/json.hpp>

#include "server/context.h"
#include "server/status_map.h"

namespace tenon::server {
namespace {

using Json = nlohmann::ordered_json;

// The body as an object; an empty body is an empty object. Discarded when it is neither.
Json BodyObject(const Call& call) {
  if (call.request->body.empty()) return Json::object();
  Json body = Json::parse(call.request->body, nullptr, /*allow_exceptions=*/false);
  return body.is_object() ? body : Json(Json::value_t::discarded);
}

void RunAdmin(Call& call, std::function<Status(InferenceServer&, const std::string&)> work) {
  call.context.background([call, work = std::move(work)] {
    const Status status = work(call.context.models, call.args[0]);
    if (status.ok()) return call.ReplyJson("{}");
    call.ReplyError(OutcomeOfRefusal(status), status.message());
  });
}

}  // namespace

void RepositoryIndex(Call& call) {
  const Json body = BodyObject(call);
  if (body.is_discarded()) return call.ReplyError(Outcome::kBadRequest, "the body is no JSON object");
  const bool ready_only = body.contains("ready") && body["ready"].is_boolean() && body["ready"].get<bool>();
  Json list = Json::array();
  for (const ModelState& m : call.context.models.Index()) {
    if (ready_only && m.state != "READY") continue;
    Json item = {{"name", m.name}};
    if (!m.version.empty()) item["version"] = m.version;
    item["state"] = m.state;
    item["reason"] = m.reason;
    list.push_back(std::move(item));
  }
  call.ReplyJson(list.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void RepositoryLoad(Call& call) {
  const Json body = BodyObject(call);
  if (body.is_discarded()) return call.ReplyError(Outcome::kBadRequest, "the body is no JSON object");
  if (body.contains("parameters") && body["parameters"].is_object()) {
    for (const auto& [key, value] : body["parameters"].items()) {
      if (key == "config" || key.starts_with("file:")) {
        return call.ReplyError(Outcome::kUnsupported,
                               fmt::format("parameter '{}'; models and their settings are read from the repository", key));
      }
    }
  }
  RunAdmin(call, [](InferenceServer& models, const std::string& name) { return models.Load(name); });
}

void RepositoryUnload(Call& call) {
  if (BodyObject(call).is_discarded()) return call.ReplyError(Outcome::kBadRequest, "the body is no JSON object");
  RunAdmin(call, [](InferenceServer& models, const std::string& name) { return models.Unload(name); });
}

}  // namespace tenon::server
