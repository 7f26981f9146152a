// generation_config.json: how answers are sampled. The tokens that end them belong to the tokenizer (tokenizer_folder.cc).
#include <nlohmann/json.hpp>

#include "import/hf/fields.h"
#include "import/hf/folder.h"

namespace tenon::import::hf {

Status ReadGenerationConfig(const Folder& folder, std::map<std::string, std::string>* metadata) {
  if (!folder.Has("generation_config.json")) return {};
  TENON_ASSIGN_OR_RETURN(const nlohmann::json config, folder.Json("generation_config.json"));
  if (!config.is_object()) return BadInput("generation_config.json is no JSON object");
  for (const char* name : {"temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty"}) {
    const nlohmann::json* value = Find(config, {name});
    if (value == nullptr) continue;
    if (!value->is_number()) return BadInput("generation_config.json: {} is no number", name);
    (*metadata)[fmt::format("tenon.sampling.{}", name)] = value->dump();
  }
  const nlohmann::json* sample = Find(config, {"do_sample"});
  if (sample != nullptr && sample->is_boolean() && !sample->get<bool>())
    (*metadata)["tenon.sampling.temperature"] = std::string("0");
  return {};
}

}  // namespace tenon::import::hf
