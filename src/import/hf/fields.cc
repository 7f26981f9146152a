#include "import/hf/fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace tenon::import::hf {

using Json = nlohmann::json;

const Json* Find(const Json& j, std::initializer_list<const char*> keys) {
  if (!j.is_object()) return nullptr;
  for (const char* key : keys) {
    const auto it = j.find(key);
    if (it != j.end() && !it->is_null()) return &*it;
  }
  return nullptr;
}

Status Count(const Json& j, std::initializer_list<const char*> keys, int64_t fallback, int64_t most, int64_t* to) {
  const Json* v = Find(j, keys);
  if (v == nullptr && fallback >= 0) {
    *to = fallback;
    return {};
  }
  if (v == nullptr || !v->is_number_integer() || v->get<int64_t>() < 1 || v->get<int64_t>() > most)
    return BadInput("config.json: '{}' is missing or not within 1..{}", *keys.begin(), most);
  *to = v->get<int64_t>();
  return {};
}

Status Real(const Json& j, std::initializer_list<const char*> keys, float* to) {
  const Json* v = Find(j, keys);
  if (v == nullptr) return {};
  if (!v->is_number() || !std::isfinite(v->get<float>()) || v->get<float>() <= 0)
    return BadInput("config.json: '{}' is no number above 0", *keys.begin());
  *to = v->get<float>();
  return {};
}

Status Want(const Json& j, const char* key, const Json& want) {
  const Json* v = Find(j, {key});
  if (v == nullptr || *v == want) return {};
  return Unsupported("config.json: {} is {}; supported is {}", key, v->dump(-1, ' ', true, Json::error_handler_t::replace),
                     want.dump());
}

}  // namespace tenon::import::hf
