// Hugging Face folders to graphs: encoders, with what sentence-transformers keeps beside them.
#include <nlohmann/json.hpp>

#include "import/hf/encoder.h"
#include "import/hf/folder.h"
#include "import/import.h"
#include "text/tokenizer_spec.h"

namespace tenon::import {

Result<ir::Graph> ImportHf(const std::string& path) {
  const hf::Folder folder(path);
  if (!folder.Has("config.json")) return BadInput("the folder has no config.json");
  TENON_ASSIGN_OR_RETURN(const nlohmann::json config, folder.Json("config.json"));
  if (!config.is_object()) return BadInput("config.json is no JSON object");
  TENON_ASSIGN_OR_RETURN(const hf::Config encoder, hf::ReadConfig(config));
  if (!folder.Has("model.safetensors")) return BadInput("the folder has no model.safetensors");
  TENON_ASSIGN_OR_RETURN(const Safetensors weights, Safetensors::Open(folder.PathOf("model.safetensors")));
  TENON_ASSIGN_OR_RETURN(ir::Graph graph, hf::BuildEncoder(weights, encoder));
  graph.metadata["general.architecture"] = std::string(encoder.arch->model_type);
  TENON_RETURN_IF_ERROR(hf::ReadSentenceConfig(folder, encoder.max_tokens(), &graph.metadata));
  if (folder.Has("tokenizer.json")) {
    TENON_ASSIGN_OR_RETURN(const std::string json, folder.Text("tokenizer.json"));
    std::string tokenizer_config;
    if (folder.Has("tokenizer_config.json")) {
      TENON_ASSIGN_OR_RETURN(tokenizer_config, folder.Text("tokenizer_config.json"));
    }
    TENON_ASSIGN_OR_RETURN(const text::TokenizerSpec spec, text::SpecFromJson(json, tokenizer_config));
    graph.metadata["tenon.tokenizer"] = spec.Serialize();
  }
  return graph;
}

}  // namespace tenon::import
