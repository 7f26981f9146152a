// The numbers of a decoder model, read from GGUF metadata and checked.
#ifndef TENON_IMPORT_GGUF_CONFIG_H_
#define TENON_IMPORT_GGUF_CONFIG_H_

#include <string>
#include <vector>

#include "import/gguf/arch.h"
#include "tensor/gguf.h"

namespace tenon::import::gguf {

struct Config {
  const Arch* arch = nullptr;
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0, context = 0, vocabulary = 0;
  int64_t window = 0;               ///< of local layers; 0: they see all tokens
  std::vector<bool> local;          ///< by layer
  int64_t rope_dims = 0;
  bool interleaved_rope = false;    ///< as Arch has it, or not: files other than GGUF have halves always
  float rope_base = 10000, rope_divisor = 1, rope_mscale = 1;
  float local_rope_base = 0;        ///< 0: local layers turn as the others
  float epsilon = 1e-5f;
  float attention_scale = 0;        ///< 0: 1/sqrt(head_dim)
  float attention_softcap = 0, final_softcap = 0;
  float embedding_scale = 1, residual_scale = 1, logit_divisor = 1;
};

Result<Config> ReadConfig(const GgufFile& file);

/// Angles per position of each pair, `factors` (one a pair, may be empty) divided out.
std::vector<float> RopeFrequencies(const Config& config, bool local, const std::vector<float>& factors);

}  // namespace tenon::import::gguf

#endif  // TENON_IMPORT_GGUF_CONFIG_H_
