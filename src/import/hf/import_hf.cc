// Hugging Face folders to graphs: decoders, and encoders with what sentence-transformers keeps beside them.
#include <nlohmann/json.hpp>
#include <set>

#include "import/hf/decoder.h"
#include "import/hf/encoder.h"
#include "import/hf/folder.h"
#include "import/hf/tokenizer_folder.h"
#include "import/import.h"

namespace tenon::import {
namespace {

Result<ir::Graph> Encoder(const hf::Folder& folder, const nlohmann::json& config) {
  TENON_ASSIGN_OR_RETURN(const hf::Config encoder, hf::ReadConfig(config));
  if (!folder.Has("model.safetensors")) return BadInput("the folder has no model.safetensors");
  TENON_ASSIGN_OR_RETURN(const Safetensors weights, Safetensors::Open(folder.PathOf("model.safetensors")));
  TENON_ASSIGN_OR_RETURN(ir::Graph graph, hf::BuildEncoder(weights, encoder));
  TENON_RETURN_IF_ERROR(hf::ReadSentenceConfig(folder, encoder.max_tokens(), &graph.metadata));
  return graph;
}

// One file, or those that an index names; all of them lie in the folder itself.
Result<std::vector<Safetensors>> AllWeights(const hf::Folder& folder) {
  std::set<std::string> files;
  if (folder.Has("model.safetensors")) {
    files.insert("model.safetensors");
  } else if (folder.Has("model.safetensors.index.json")) {
    TENON_ASSIGN_OR_RETURN(const nlohmann::json index, folder.Json("model.safetensors.index.json"));
    const nlohmann::json* map = index.is_object() && index.contains("weight_map") ? &index["weight_map"] : nullptr;
    if (map == nullptr || !map->is_object()) return BadInput("model.safetensors.index.json has no weight_map");
    for (const auto& [tensor, file] : map->items()) {
      const std::string name = file.is_string() ? file.get<std::string>() : "";
      if (!name.ends_with(".safetensors") || name.find('/') != std::string::npos)
        return BadInput("model.safetensors.index.json: tensor '{}' is in no .safetensors file of the folder", tensor);
      files.insert(name);
    }
  }
  if (files.empty()) return BadInput("the folder has no model.safetensors");
  std::vector<Safetensors> all;
  for (const std::string& file : files) {
    TENON_ASSIGN_OR_RETURN(Safetensors one, Safetensors::Open(folder.PathOf(file)));
    all.push_back(std::move(one));
  }
  return all;
}

Result<ir::Graph> Decoder(const hf::Folder& folder, const hf::DecoderArch& arch, const nlohmann::json& json,
                          const LanguageModelOptions& options) {
  TENON_ASSIGN_OR_RETURN(const hf::DecoderConfig config, hf::ReadDecoderConfig(arch, json));
  TENON_ASSIGN_OR_RETURN(const std::vector<Safetensors> weights, AllWeights(folder));
  TENON_ASSIGN_OR_RETURN(ir::Graph graph, hf::BuildDecoder(weights, config, options));
  TENON_RETURN_IF_ERROR(hf::ReadGenerationConfig(folder, &graph.metadata));
  return graph;
}

}  // namespace

Result<ir::Graph> ImportHf(const std::string& path, const LanguageModelOptions& options) {
  const hf::Folder folder(path);
  if (!folder.Has("config.json")) return BadInput("the folder has no config.json");
  TENON_ASSIGN_OR_RETURN(const nlohmann::json config, folder.Json("config.json"));
  if (!config.is_object()) return BadInput("config.json is no JSON object");
  const std::string type =
      config.contains("model_type") && config["model_type"].is_string() ? config["model_type"].get<std::string>() : "";
  const hf::DecoderArch* decoder = hf::FindDecoderArch(type);
  TENON_ASSIGN_OR_RETURN(ir::Graph graph,
                         decoder != nullptr ? Decoder(folder, *decoder, config, options) : Encoder(folder, config));
  graph.metadata["general.architecture"] = type;
  if (folder.Has("tokenizer.json")) {
    TENON_ASSIGN_OR_RETURN(const text::TokenizerSpec spec, ReadFolderTokenizer(folder.PathOf("tokenizer.json")));
    graph.metadata["tenon.tokenizer"] = spec.Serialize();
    if (!spec.chat_template.empty()) graph.metadata["tokenizer.chat_template"] = spec.chat_template;
  }
  return graph;
}

}  // namespace tenon::import
