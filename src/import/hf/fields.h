// Fields of config.json, each of which may have several names.
#ifndef TENON_IMPORT_HF_FIELDS_H_
#define TENON_IMPORT_HF_FIELDS_H_

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>

#include "base/status.h"

namespace tenon::import::hf {

/// The value under the first of `keys` that is there and not null.
const nlohmann::json* Find(const nlohmann::json& j, std::initializer_list<const char*> keys);
/// A number from 1 to `most`; `fallback` < 0: it must be there.
Status Count(const nlohmann::json& j, std::initializer_list<const char*> keys, int64_t fallback, int64_t most, int64_t* to);
/// A number above 0; absent, `to` stays as it is.
Status Real(const nlohmann::json& j, std::initializer_list<const char*> keys, float* to);
/// What a key must be for the graph that is built here; absent is fine.
Status Want(const nlohmann::json& j, const char* key, const nlohmann::json& want);

}  // namespace tenon::import::hf

#endif  // TENON_IMPORT_HF_FIELDS_H_
