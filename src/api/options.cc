#include "api/options.h"

#include <nlohmann/json.hpp>

namespace tenon::api {
namespace {

using nlohmann::json;

Status SetOption(const std::string& key, const json& value, OpenOptions* o) {
  if (key == "opt_level") {
    o->compile.opt_level = value.get<int>();
  } else if (key == "disable_pass") {
    o->compile.disabled_passes = value.get<std::vector<std::string>>();
  } else if (key == "input_shape") {
    o->compile.input_shapes = value.get<std::map<std::string, std::vector<std::string>>>();
  } else if (key == "precision") {
    o->compile.precision = value.get<std::string>();
  } else if (key == "op_select_implmode") {
    o->compile.op_select_implmode = value.get<std::string>();
  } else if (key == "kv_cache") {
    o->compile.kv_cache = value.get<std::string>();
  } else if (key == "weights") {
    o->compile.weights = value.get<std::string>();
  } else if (key == "external_weights") {
    o->compile.external_weights = value.get<bool>();
  } else if (key == "packed_weights") {
    o->compile.packed_weights = value.get<bool>();
  } else if (key == "keep_initializer_inputs") {
    o->compile.keep_initializer_inputs = value.get<bool>();
  } else if (key == "threads") {
    o->session.threads = value.get<int>();
  } else if (key == "cores") {
    o->session.cores = value.get<std::vector<int>>();
  } else if (key == "memory_limit") {
    o->session.memory_limit = value.get<uint64_t>();
  } else if (key == "isa") {
    o->session.isa = value.get<std::string>();
  } else if (key == "max_cached_shapes") {
    o->session.max_cached_shapes = value.get<int>();
  } else if (key == "cache_dir") {
    o->cache_dir = value.get<std::string>();
  } else {
    return Usage("unknown option '{}'", key);
  }
  return Status::Ok();
}

}  // namespace

Result<OpenOptions> ParseOptions(const char* text) {
  OpenOptions options;
  if (text == nullptr || *text == '\0') return options;
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return Usage("options are not a JSON object: {}", text);
  for (const auto& [key, value] : parsed.items()) {
    try {
      TENON_RETURN_IF_ERROR(SetOption(key, value, &options));
    } catch (const json::exception&) {
      return Usage("option '{}' is of the wrong kind", key);
    }
  }
  return options;
}

}  // namespace tenon::api
