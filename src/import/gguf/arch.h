// The architectures of decoder models that GGUF files may hold: what differs among them, one row each. Everything else follows
// from the tensors and numbers that a file has.
#ifndef TENON_IMPORT_GGUF_ARCH_H_
#define TENON_IMPORT_GGUF_ARCH_H_

#include <string_view>

namespace tenon::import::gguf {

struct Arch {
  std::string_view name;                 ///< general.architecture
  bool interleaved_rope = false;         ///< pairs (2i, 2i+1), as the converters of these models order rows; else halves
  const char* gate = "silu";             ///< of the feed-forward part
  bool scaled_embedding = false;         ///< embeddings times sqrt(width)
  int local_every = 0;                   ///< layers are local (a window, their own rope base) but for each n-th; 0: all alike
  float local_rope_base = 0;             ///< of local layers; 0: as the others
  int64_t default_window = 0;            ///< where the file says nothing; 0: none then
  int64_t scaled_by_width = 0;  ///< the number of layers of the size whose scores are scaled by width / heads, as no key says
};

/// Null when it is not known.
const Arch* FindArch(std::string_view name);

}  // namespace tenon::import::gguf

#endif  // TENON_IMPORT_GGUF_ARCH_H_
