// System shared memory: status, register, unregister.
#include <nlohmann/json.hpp>

#include "server/context.h"
#include "server/status_map.h"

namespace tenon::server {
namespace {

using Json = nlohmann::ordered_json;

std::string RegionName(const Call& call) {
  return call.args.empty() ? "" : call.args[0];
}

}  // namespace

void SharedMemoryStatus(Call& call) {
  const auto regions = call.context.regions.List(RegionName(call));
  if (!regions.ok()) return call.ReplyError(Outcome::kBadRequest, regions.status().message());
  Json list = Json::array();
  for (const auto& r : *regions) list.push_back({{"name", r.name}, {"key", r.key}, {"offset", r.offset}, {"byte_size", r.bytes}});
  call.ReplyJson(list.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void SharedMemoryRegister(Call& call) {
  const Json body = Json::parse(call.request->body, nullptr, /*allow_exceptions=*/false);
  const bool usable = body.is_object() && body.contains("key") && body["key"].is_string() && body.contains("byte_size") &&
                      body["byte_size"].is_number_unsigned() && (!body.contains("offset") || body["offset"].is_number_unsigned());
  if (!usable)
    return call.ReplyError(Outcome::kBadRequest,
                           "an object with \"key\" (text), \"byte_size\" and \"offset\" (numbers >= 0) is expected");
  const uint64_t offset = body.contains("offset") ? body["offset"].get<uint64_t>() : 0;
  const Status status =
      call.context.regions.Register(call.args[0], body["key"].get<std::string>(), offset, body["byte_size"].get<uint64_t>());
  if (!status.ok()) return call.ReplyError(OutcomeOfRefusal(status), status.message());
  call.ReplyJson("{}");
}

void SharedMemoryUnregister(Call& call) {
  call.context.regions.Unregister(RegionName(call));
  call.ReplyJson("{}");
}

}  // namespace tenon::server
