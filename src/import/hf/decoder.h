// Decoders in Hugging Face folders. Their tensors get GGUF's names, and import/gguf builds the graph.
#ifndef TENON_IMPORT_HF_DECODER_H_
#define TENON_IMPORT_HF_DECODER_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "import/gguf/config.h"
#include "import/hf/safetensors.h"
#include "import/import.h"

namespace tenon::import::hf {

/// What differs among the decoders that folders may hold.
struct DecoderArch {
  std::string_view model_type;       ///< of config.json
  std::string_view gguf;             ///< the row of import/gguf/arch.cc that tells the rest
  bool norms_add_one = false;        ///< weights of norms are what is added to one
  bool norms_around = false;         ///< attention and feed-forward have a norm before and after each
  bool ties = false;                 ///< the head is the embedding where the configuration says nothing
};
/// Null: the model is no decoder that is known.
const DecoderArch* FindDecoderArch(std::string_view model_type);
/// "llama, mistral, ..."
std::string KnownDecoders();

struct DecoderConfig {
  const DecoderArch* arch = nullptr;
  gguf::Config numbers;
  std::vector<float> rope_factors;   ///< what angles are divided by, one a pair; empty: 1
  bool tied = false;
};
/// kUnsupported: a form that is not known; kBadInput: a key missing or out of range.
Result<DecoderConfig> ReadDecoderConfig(const DecoderArch& arch, const nlohmann::json& config);

/// kBadInput: a tensor is missing or of another shape; kUnsupported: one that is not known.
Result<ir::Graph> BuildDecoder(const std::vector<Safetensors>& weights, const DecoderConfig& config,
                               const LanguageModelOptions& options);

}  // namespace tenon::import::hf

#endif  // TENON_IMPORT_HF_DECODER_H_
