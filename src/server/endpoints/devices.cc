// Devices: what runs where, and resource groups changed while models serve.
#include <nlohmann/json.hpp>

#include "server/context.h"
#include "server/status_map.h"

namespace tenon::server {
namespace {

using Json = nlohmann::ordered_json;

void RunChange(Call& call, const char* what, std::function<Status(InferenceServer&)> change) {
  call.context.background([call, what, change = std::move(change)] {
    const Status status = change(call.context.models);
    call.context.log.Write(status.ok() ? LogLevel::kInfo : LogLevel::kError, what,
                           {{"group", call.args[0]}, {"reason", status.message()}});
    if (!status.ok()) return call.ReplyError(OutcomeOfRefusal(status), status.message());
    call.ReplyJson("{}");
  });
}

// The group that a body describes; the message of a kUsage says what is wrong.
Result<DeviceGroup> GroupOf(const std::string& name, const std::string& text) {
  const Json body = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return Status(Code::kUsage, "the body is no JSON object");
  DeviceGroup group;
  group.name = name;
  for (const auto& [key, value] : body.items()) {
    if (key == "cores" && value.is_array()) {
      for (const Json& core : value) {
        if (!core.is_number_unsigned() || core.get<uint64_t>() > 4096)
          return Status(Code::kUsage, "cores; numbers of CPUs are expected");
        group.cores.push_back(core.get<int>());
      }
    } else if (key == "memory_limit" && value.is_number_unsigned()) {
      group.memory_limit = value.get<uint64_t>();
    } else if (key == "exclusive" && value.is_boolean()) {
      group.exclusive = value.get<bool>();
    } else if (key == "weight" && value.is_number()) {
      group.weight = value.get<double>();
    } else if (key == "quota" && value.is_number()) {
      group.quota = value.get<double>();
    } else {
      return Status(
          Code::kUsage,
          "key '" + key +
              "'; allowed: cores (a list), memory_limit (bytes), exclusive (true or false), weight (a number), quota (CPUs)");
    }
  }
  return group;
}

}  // namespace

void Devices(Call& call) {
  Json list = Json::array();
  for (const DeviceState& d : call.context.models.Devices()) {
    list.push_back({{"name", d.group.name},
                    {"cores", d.group.cores},
                    {"exclusive", d.group.exclusive},
                    {"weight", d.group.weight},
                    {"quota", d.group.quota},
                    {"quota_means", d.quota_means},
                    {"memory", {{"limit", d.group.memory_limit}, {"used", d.memory_used}, {"promised", d.memory_promised}}},
                    {"models", d.models}});
  }
  call.ReplyJson(Json({{"devices", list}}).dump(-1, ' ', false, Json::error_handler_t::replace));
}

void DeviceSet(Call& call) {
  auto group = GroupOf(call.args[0], call.request->body);
  if (!group.ok()) return call.ReplyError(Outcome::kBadRequest, group.status().message());
  RunChange(call, "set group", [group = std::move(group).value()](InferenceServer& models) { return models.SetGroup(group); });
}

void DeviceRemove(Call& call) {
  RunChange(call, "remove group", [name = call.args[0]](InferenceServer& models) { return models.RemoveGroup(name); });
}

}  // namespace tenon::server
