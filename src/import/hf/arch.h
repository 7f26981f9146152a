// The architectures of encoders that Hugging Face folders may hold: what differs among them, one row each. Which linear layers
// and norms have a bias follows from the tensors that a folder has.
#ifndef TENON_IMPORT_HF_ARCH_H_
#define TENON_IMPORT_HF_ARCH_H_

#include <string>
#include <string_view>

namespace tenon::import::hf {

/// Names of tensors, without ".weight" and ".bias"; null where an architecture has none. Those from `query` on are within a
/// layer.
struct Names {
  const char* words;
  const char* positions;
  const char* types;
  const char* embedding_norm;
  const char* final_norm;
  const char* layer;                     ///< what stands before a layer's number
  const char* query;
  const char* key;
  const char* value;
  const char* qkv;                       ///< the three in one tensor
  const char* attention_out;
  const char* attention_norm;
  const char* gate;
  const char* up;
  const char* gate_up;                   ///< the two in one tensor
  const char* down;
  const char* output_norm;
};

enum class Offset { kNone, kTwo, kAfterPadding };  ///< of positions in their table; kAfterPadding: the padding token's id and one

struct Arch {
  std::string_view model_type;  ///< of config.json
  const Names* names;
  Offset offset = Offset::kNone;
  bool pre_norm = false;  ///< norms stand before attention and feed-forward, else after their residuals
  bool relative_bias = false;  ///< added to scores by the distance of two tokens, one table for all layers
  float rope_base = 0;  ///< 0: no rotary embedding; else where the configuration says nothing
  float local_rope_base = 0;  ///< of layers that look at a window
};

/// Null when it is not known.
const Arch* FindArch(std::string_view model_type);
/// "bert, roberta, ..."
std::string KnownArchs();

}  // namespace tenon::import::hf

#endif  // TENON_IMPORT_HF_ARCH_H_
