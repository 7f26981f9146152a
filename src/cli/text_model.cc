// Finding the tokenizer in GGUF metadata, an artifact or a folder.
#include "cli/text_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "artifact/artifact.h"
#include "base/mapped_file.h"
#include "import/gguf/tokenizer_metadata.h"
#include "import/hf/tokenizer_folder.h"
#include "tensor/gguf.h"

namespace tenon::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxLinesFile = uint64_t{4} << 30;

Status Named(const std::string& file, const Status& status) {
  return Status(status.code(), file + ": " + status.message());
}

Result<text::TokenizerSpec> FromArtifact(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const artifact::Artifact a, artifact::Read(path));
  const auto& metadata = a.program.metadata;
  const auto it = metadata.find("tenon.tokenizer");
  if (it == metadata.end()) return BadInput("the model has no tokenizer; a language model or an embedder is needed");
  TENON_ASSIGN_OR_RETURN(text::TokenizerSpec spec, text::TokenizerSpec::Parse(it->second));
  const auto chat = metadata.find("tokenizer.chat_template");
  if (chat != metadata.end()) spec.chat_template = chat->second;
  return spec;
}

Result<text::TokenizerSpec> Load(const std::string& model) {
  std::error_code error;
  const fs::path path(model);
  if (fs::is_directory(path, error)) {
    if (!fs::exists(path / "tokenizer.json", error)) return BadInput("the folder has no tokenizer.json");
    return import::ReadFolderTokenizer((path / "tokenizer.json").string());
  }
  if (path.extension() == ".json") return import::ReadFolderTokenizer(path.string());
  if (LooksLikeGguf(model)) {
    TENON_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(model));
    return import::ReadGgufTokenizer(file);
  }
  if (artifact::LooksLikeArtifact(model)) return FromArtifact(model);
  if (!fs::exists(path, error)) return BadInput("no such file or folder");
  return BadInput("no model with a tokenizer; allowed: .gguf, .tenon, a Hugging Face folder, tokenizer.json");
}

}  // namespace

Result<text::TokenizerSpec> LoadTokenizerSpec(const std::string& model) {
  auto spec = Load(model);
  if (!spec.ok()) return Named(model, spec.status());
  return spec;
}

Result<std::vector<std::string>> ReadLines(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxLinesFile));
  const bool json = fs::path(path).extension() == ".jsonl";
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', begin), bytes.size());
    std::string line = bytes.substr(begin, end - begin);
    begin = end + 1;
    if (json) {
      const auto value = nlohmann::json::parse(line, nullptr, false);
      if (!value.is_string()) return BadInput("{}: line {} is no JSON string", path, lines.size() + 1);
      line = value.get<std::string>();
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tenon::cli
