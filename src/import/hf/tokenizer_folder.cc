#include "import/hf/tokenizer_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "import/hf/folder.h"

namespace tenon::import {
namespace {

constexpr uint64_t kMaxTokenizerFile = uint64_t{256} << 20;

// Ids that end an answer: one, or a list of them.
Status ReadEnds(const hf::Folder& folder, text::TokenizerSpec* spec) {
  if (!folder.Has("generation_config.json")) return {};
  TENON_ASSIGN_OR_RETURN(const nlohmann::json config, folder.Json("generation_config.json"));
  if (!config.is_object() || !config.contains("eos_token_id")) return {};
  const nlohmann::json& ends = config["eos_token_id"];
  for (const nlohmann::json& id : ends.is_array() ? ends : nlohmann::json::array({ends})) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= spec->tokens.size()) continue;
    const auto token = static_cast<int32_t>(id.get<uint64_t>());
    auto& known = spec->end_of_turn;
    if (std::find(known.begin(), known.end(), token) == known.end()) known.push_back(token);
  }
  return {};
}

}  // namespace

Result<text::TokenizerSpec> ReadFolderTokenizer(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string json, ReadFile(path, kMaxTokenizerFile));
  const hf::Folder folder(std::filesystem::path(path).parent_path().string());
  std::string config;
  if (folder.Has("tokenizer_config.json")) {
    TENON_ASSIGN_OR_RETURN(config, folder.Text("tokenizer_config.json"));
  }
  TENON_ASSIGN_OR_RETURN(text::TokenizerSpec spec, text::SpecFromJson(json, config));
  if (folder.Has("chat_template.jinja")) {
    TENON_ASSIGN_OR_RETURN(spec.chat_template, folder.Text("chat_template.jinja"));
  }
  TENON_RETURN_IF_ERROR(ReadEnds(folder, &spec));
  return spec;
}

}  // namespace tenon::import
