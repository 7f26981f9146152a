// The model repository: what is there, loading, unloading.
#include <openssl/evp.h>

#include <climits>
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

void RunAdmin(Call& call, const char* what, std::function<Status(ModelLoads&, const std::string&)> work) {
  call.context.background([call, what, work = std::move(work)] {
    const Status status = work(call.context.loads, call.args[0]);
    LogLoad(call.context.log, what, call.args[0], status, call.context.models);
    if (status.ok()) return call.ReplyJson("{}");
    call.ReplyError(OutcomeOfRefusal(status), status.message());
  });
}

// Text of base64, as clients put files into JSON.
Result<std::string> FromBase64(const std::string& text) {
  if (text.size() > INT_MAX) return Usage("{} characters of base64; at most {} are allowed", text.size(), INT_MAX);
  std::string bytes(text.size() / 4 * 3, '\0');
  const int n = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (n < 0 || text.size() % 4 != 0) return Usage("no base64");
  // The decoder counts the bytes of padding.
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<size_t>(n) - padding);
  return bytes;
}

Result<LoadRequest> ReadLoad(const Json& body) {
  LoadRequest request;
  if (!body.contains("parameters")) return request;
  if (!body["parameters"].is_object()) return Usage("parameters; an object is expected");
  for (const auto& [key, value] : body["parameters"].items()) {
    const bool file = key.starts_with("file:");
    if (key != "config" && !file) continue;
    if (!value.is_string()) return Usage("parameter '{}'; a text is expected", key);
    if (!file) {
      request.config = value.get<std::string>();
      continue;
    }
    auto content = FromBase64(value.get_ref<const std::string&>());
    if (!content.ok()) return std::move(content).TakeStatus().Within(fmt::format("parameter '{}'", key));
    TENON_RETURN_IF_ERROR(AddFile(key, std::move(content).value(), &request));
  }
  return request;
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
  auto request = ReadLoad(body);
  if (!request.ok()) return call.ReplyError(Outcome::kBadRequest, request.status().message());
  RunAdmin(call, "load", [request = std::move(request).value()](ModelLoads& loads, const std::string& name) {
    return loads.Load(name, request);
  });
}

void RepositoryUnload(Call& call) {
  if (BodyObject(call).is_discarded()) return call.ReplyError(Outcome::kBadRequest, "the body is no JSON object");
  RunAdmin(call, "unload", [](ModelLoads& loads, const std::string& name) { return loads.Unload(name); });
}

}  // namespace tenon::server
