// The numbers of an encoder, read from config.json and checked.
#ifndef TENON_IMPORT_HF_CONFIG_H_
#define TENON_IMPORT_HF_CONFIG_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "import/hf/arch.h"

namespace tenon::import::hf {

struct Config {
  const Arch* arch = nullptr;
  int64_t width = 0, layers = 0, heads = 0, inner = 0, vocabulary = 0;
  int64_t positions = 0;             ///< rows of their table, or what rotary embedding was trained for
  int64_t position_offset = 0;       ///< the row of the first token
  int64_t types = 0;                 ///< rows of their table
  int64_t window = 0;                ///< how far a token of a local layer sees to each side
  std::vector<bool> local;           ///< by layer
  float epsilon = 1e-12f, rope_base = 0, local_rope_base = 0;
  std::string activation;            ///< "gelu", "gelu_tanh", "relu", "silu"

  int64_t head_dim() const { return width / heads; }
  int64_t max_tokens() const { return positions - position_offset; }
};

/// kUnsupported: an architecture, or a form of it, that is not known; kBadInput: a key missing or out of range.
Result<Config> ReadConfig(const nlohmann::json& config);

}  // namespace tenon::import::hf

#endif  // TENON_IMPORT_HF_CONFIG_H_
