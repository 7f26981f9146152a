// Hugging Face folders to graphs: encoders, with what sentence-transformers keeps beside them.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "import/hf/encoder.h"
#include "import/import.h"
#include "text/tokenizer_spec.h"

namespace tenon::import {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr uint64_t kMaxJson = uint64_t{256} << 20;

Result<std::string> ReadText(const fs::path& path) {
  return ReadFile(path.string(), kMaxJson);
}

Result<Json> ReadJson(const fs::path& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return BadInput("'{}' is no JSON", path.string());
  return json;
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string Text(const Json& j, const char* key, std::string otherwise) {
  return j.is_object() && j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : otherwise;
}

// How sentence-transformers makes one vector of a text's: into the graph's metadata, where `tenon embed` and a server find it.
Status ReadPooling(const fs::path& folder, int64_t positions, std::map<std::string, std::string>* metadata) {
  std::string pooling = "mean";
  bool normalize = false;
  int64_t longest = positions;
  if (Exists(folder / "modules.json")) {
    TENON_ASSIGN_OR_RETURN(const Json modules, ReadJson(folder / "modules.json"));
    for (const Json& m : modules.is_array() ? modules : Json::array()) {
      const std::string type = Text(m, "type", "");
      if (type.ends_with(".Normalize")) {
        normalize = true;
      } else if (type.ends_with(".Pooling")) {
        const fs::path path = Text(m, "path", "");
        if (path.is_absolute() || path.string().find("..") != std::string::npos)
          return BadInput("modules.json: the path '{}' leads out of the folder", path.string());
        TENON_ASSIGN_OR_RETURN(const Json config, ReadJson(folder / path / "config.json"));
        pooling.clear();
        for (const auto& [key, name] : {std::pair{"pooling_mode_cls_token", "cls"},
                                        {"pooling_mode_mean_tokens", "mean"},
                                        {"pooling_mode_max_tokens", "max"},
                                        {"pooling_mode_lasttoken", "last"}}) {
          if (!config.is_object() || !config.contains(key) || !config[key].is_boolean() || !config[key].get<bool>()) continue;
          if (!pooling.empty()) return Unsupported("two modes of pooling together");
          pooling = name;
        }
        if (pooling.empty()) return Unsupported("the pooling of '{}'; supported are cls, mean, max and lasttoken", path.string());
      } else if (!type.ends_with(".Transformer")) {
        return Unsupported("modules.json: a module of type '{}'", type);
      }
    }
  }
  if (Exists(folder / "sentence_bert_config.json")) {
    TENON_ASSIGN_OR_RETURN(const Json config, ReadJson(folder / "sentence_bert_config.json"));
    if (config.is_object() && config.contains("max_seq_length") && config["max_seq_length"].is_number_integer()) {
      longest = config["max_seq_length"].get<int64_t>();
      if (longest < 1 || longest > positions)
        return BadInput("max_seq_length is {}; the model has {} positions", longest, positions);
    }
  }
  (*metadata)["tenon.pooling"] = pooling;
  (*metadata)["tenon.normalize"] = normalize ? "1" : "0";
  (*metadata)["tenon.max_tokens"] = std::to_string(longest);
  return Status::Ok();
}

}  // namespace

Result<ir::Graph> ImportHf(const std::string& path) {
  const fs::path folder(path);
  if (!Exists(folder / "config.json")) return BadInput("the folder has no config.json");
  TENON_ASSIGN_OR_RETURN(const Json config, ReadJson(folder / "config.json"));
  if (!config.is_object()) return BadInput("config.json is no JSON object");
  TENON_ASSIGN_OR_RETURN(const hf::Config encoder, hf::ReadConfig(config));
  if (!Exists(folder / "model.safetensors")) return BadInput("the folder has no model.safetensors");
  TENON_ASSIGN_OR_RETURN(const Safetensors weights, Safetensors::Open((folder / "model.safetensors").string()));
  TENON_ASSIGN_OR_RETURN(ir::Graph graph, hf::BuildEncoder(weights, encoder));
  graph.metadata["general.architecture"] = std::string(encoder.arch->model_type);
  TENON_RETURN_IF_ERROR(ReadPooling(folder, encoder.max_tokens(), &graph.metadata));
  if (Exists(folder / "tokenizer.json")) {
    TENON_ASSIGN_OR_RETURN(const std::string json, ReadText(folder / "tokenizer.json"));
    std::string tokenizer_config;
    if (Exists(folder / "tokenizer_config.json")) {
      TENON_ASSIGN_OR_RETURN(tokenizer_config, ReadText(folder / "tokenizer_config.json"));
    }
    TENON_ASSIGN_OR_RETURN(const text::TokenizerSpec spec, text::SpecFromJson(json, tokenizer_config));
    graph.metadata["tenon.tokenizer"] = spec.Serialize();
  }
  return graph;
}

}  // namespace tenon::import
