// Settings of the log and of traces, read and changed while the server runs.
#include <nlohmann/json.hpp>

#include "server/context.h"
#include "server/status_map.h"

namespace tenon::server {
namespace {

using Json = nlohmann::ordered_json;

Json LogJson(const Log& log) {
  Json json = Json::object();
  for (const auto& [name, value] : log.Values()) std::visit([&, &key = name](const auto& v) { json[key] = v; }, value);
  return json;
}

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// trace_level is a list, the others are texts, as clients expect.
Json TraceJson(const TraceValues& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = name == "trace_level" ? Json(value) : Json(value[0]);
  return json;
}

Result<std::vector<std::string>> TraceValue(const std::string& name, const Json& value) {
  std::vector<std::string> texts;
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    if (item.is_number_integer()) {
      texts.push_back(item.dump());
    } else if (item.is_string()) {
      texts.push_back(item.get<std::string>());
    } else {
      return Status(Code::kUsage, name + "; a text, a number, a list of them or null is expected");
    }
  }
  return texts;
}

std::string ModelOf(const Call& call) {
  return call.args.empty() ? "" : call.args[0];
}

// False when the path names a model that is not there; then the call is answered.
bool Known(const Call& call) {
  if (call.args.empty()) return true;
  const auto model = call.context.models.Describe(call.args[0]);
  if (!model.ok()) call.ReplyError(Outcome::kNotFound, model.status().message());
  return model.ok();
}

}  // namespace

void LogSettings(Call& call) {
  call.ReplyJson(Text(LogJson(call.context.log)));
}

void LogChange(Call& call) {
  const Json body = Json::parse(call.request->body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return call.ReplyError(Outcome::kBadRequest, "a JSON object of settings is expected");
  LogValues values;
  for (const auto& [name, value] : body.items()) {
    if (value.is_boolean()) {
      values[name] = value.get<bool>();
    } else if (value.is_number_unsigned()) {
      values[name] = value.get<uint64_t>();
    } else if (value.is_string()) {
      values[name] = value.get<std::string>();
    } else {
      return call.ReplyError(Outcome::kBadRequest, fmt::format("{}; true, false, a number >= 0 or a text is expected", name));
    }
  }
  const Status status = call.context.log.Change(values);
  if (!status.ok()) return call.ReplyError(OutcomeOfRefusal(status), status.message());
  LogSettings(call);
}

void TraceSettings(Call& call) {
  if (Known(call)) call.ReplyJson(Text(TraceJson(call.context.traces.Read(ModelOf(call)))));
}

void TraceChange(Call& call) {
  if (!Known(call)) return;
  const Json body = Json::parse(call.request->body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return call.ReplyError(Outcome::kBadRequest, "a JSON object of settings is expected");
  TraceChanges changes;
  for (const auto& [name, value] : body.items()) {
    if (value.is_null()) {
      changes[name] = std::nullopt;
      continue;
    }
    auto texts = TraceValue(name, value);
    if (!texts.ok()) return call.ReplyError(Outcome::kBadRequest, texts.status().message());
    changes[name] = std::move(texts).value();
  }
  const Status status = call.context.traces.Update(ModelOf(call), changes);
  if (!status.ok()) return call.ReplyError(OutcomeOfRefusal(status), status.message());
  TraceSettings(call);
}

}  // namespace tenon::server
