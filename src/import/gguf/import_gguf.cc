// GGUF files to graphs: a decoder model as plain operators, with its weights where they lie in the file.
#include "import/gguf/config.h"
#include "import/gguf/decoder.h"
#include "import/gguf/tokenizer_metadata.h"
#include "import/import.h"

namespace tenon::import {

Result<ir::Graph> ImportGguf(const GgufFile& file, const LanguageModelOptions& options) {
  TENON_ASSIGN_OR_RETURN(const gguf::Config config, gguf::ReadConfig(file));
  TENON_ASSIGN_OR_RETURN(ir::Graph graph, gguf::BuildDecoder(file.tensors(), config, options));
  // Scalars under their own keys; what arrays say is in the graph, or in the tokenizer.
  for (const auto& [key, value] : file.metadata()) {
    if (auto text = value.Text()) graph.metadata.try_emplace(key, *std::move(text));
  }
  // A model whose tokenizer is not known still runs on ids.
  if (const auto tokenizer = ReadGgufTokenizer(file); tokenizer.ok()) graph.metadata["tenon.tokenizer"] = tokenizer->Serialize();
  return graph;
}

}  // namespace tenon::import
