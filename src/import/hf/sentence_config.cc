// The files of sentence-transformers: modules.json, the pooling's config.json, sentence_bert_config.json and
// config_sentence_transformers.json.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "import/hf/folder.h"

namespace tenon::import::hf {
namespace {

using Json = nlohmann::json;

std::string TextOf(const Json& j, const char* key) {
  return j.is_object() && j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : "";
}

// One mode, in a key of each mode or in one key.
Result<std::string> ReadPooling(const Json& config, const std::string& path) {
  std::string pooling;
  constexpr const char* kModes[][3] = {{"pooling_mode_cls_token", "cls", "cls"},
                                       {"pooling_mode_mean_tokens", "mean", "mean"},
                                       {"pooling_mode_max_tokens", "max", "max"},
                                       {"pooling_mode_lasttoken", "lasttoken", "last"}};
  const std::string mode = TextOf(config, "pooling_mode");
  for (const auto& [key, word, name] : kModes) {
    const bool flag = config.is_object() && config.contains(key) && config[key].is_boolean() && config[key].get<bool>();
    if (!flag && mode != word) continue;
    if (!pooling.empty()) return Unsupported("two modes of pooling together");
    pooling = name;
  }
  if (pooling.empty()) return Unsupported("the pooling of '{}'; supported are cls, mean, max and lasttoken", path);
  return pooling;
}

Status ReadModules(const Folder& folder, std::string* pooling, bool* normalize, bool* include_prompt) {
  TENON_ASSIGN_OR_RETURN(const Json modules, folder.Json("modules.json"));
  for (const Json& m : modules.is_array() ? modules : Json::array()) {
    const std::string type = TextOf(m, "type");
    if (type.ends_with(".Normalize")) {
      *normalize = true;
    } else if (type.ends_with(".Pooling")) {
      const std::filesystem::path path = TextOf(m, "path");
      if (path.is_absolute() || path.string().find("..") != std::string::npos)
        return BadInput("modules.json: the path '{}' leads out of the folder", path.string());
      TENON_ASSIGN_OR_RETURN(const Json config, folder.Json((path / "config.json").string()));
      TENON_ASSIGN_OR_RETURN(*pooling, ReadPooling(config, path.string()));
      *include_prompt = !config.contains("include_prompt") || config["include_prompt"] != false;
    } else if (!type.ends_with(".Transformer")) {
      return Unsupported("modules.json: a module of type '{}'", type);
    }
  }
  return {};
}

// The limit that the folder sets below the model's own.
Result<int64_t> ReadLongest(const Folder& folder, int64_t positions) {
  for (const auto& [file, key] :
       {std::pair{"sentence_bert_config.json", "max_seq_length"}, {"tokenizer_config.json", "model_max_length"}}) {
    if (!folder.Has(file)) continue;
    TENON_ASSIGN_OR_RETURN(const Json config, folder.Json(file));
    if (!config.is_object() || !config.contains(key) || !config[key].is_number()) continue;
    const double longest = config[key].get<double>();   // 1e30 stands for none
    if (!(longest >= 1)) return BadInput("{}: {} is {}; at least 1 needed", file, key, longest);
    return std::min(positions, static_cast<int64_t>(std::min(longest, 1e15)));
  }
  return positions;
}

// What is put before texts, by name, and which of them unless one is asked for.
Status ReadPrompts(const Folder& folder, bool include_prompt, std::map<std::string, std::string>* metadata) {
  if (!folder.Has("config_sentence_transformers.json")) return {};
  TENON_ASSIGN_OR_RETURN(const Json config, folder.Json("config_sentence_transformers.json"));
  if (!config.is_object() || !config.contains("prompts") || !config["prompts"].is_object()) return {};
  bool any = false;
  for (const auto& [name, text] : config["prompts"].items()) {
    if (!text.is_string()) return BadInput("config_sentence_transformers.json: the prompt '{}' is no text", name);
    (*metadata)["tenon.prompt." + name] = text.get<std::string>();
    any = any || !text.get<std::string>().empty();
  }
  const std::string chosen = TextOf(config, "default_prompt_name");
  if (!chosen.empty()) {
    if (metadata->count("tenon.prompt." + chosen) == 0)
      return BadInput("config_sentence_transformers.json: default_prompt_name '{}' is none of the prompts", chosen);
    (*metadata)["tenon.default_prompt"] = chosen;
  }
  if (any && !include_prompt) return Unsupported("pooling that leaves out the prompt (include_prompt false)");
  return {};
}

}  // namespace

Status ReadSentenceConfig(const Folder& folder, int64_t positions, std::map<std::string, std::string>* metadata) {
  std::string pooling = "mean";
  bool normalize = false, include_prompt = true;
  if (folder.Has("modules.json")) TENON_RETURN_IF_ERROR(ReadModules(folder, &pooling, &normalize, &include_prompt));
  TENON_ASSIGN_OR_RETURN(const int64_t longest, ReadLongest(folder, positions));
  (*metadata)["tenon.pooling"] = pooling;
  (*metadata)["tenon.normalize"] = normalize ? "1" : "0";
  (*metadata)["tenon.max_tokens"] = std::to_string(longest);
  return ReadPrompts(folder, include_prompt, metadata);
}

}  // namespace tenon::import::hf
