// Decoder models as graphs of plain operators. Their tensors have GGUF's names, whatever file they lie in.
#ifndef TENON_IMPORT_GGUF_DECODER_H_
#define TENON_IMPORT_GGUF_DECODER_H_

#include <span>

#include "import/gguf/config.h"
#include "import/import.h"
#include "tensor/gguf.h"

namespace tenon::import::gguf {

/// With the metadata that running it takes. kBadInput: a tensor is missing or of another shape; kUnsupported: one that is not
/// known; kUsage: options out of range.
Result<ir::Graph> BuildDecoder(std::span<const GgufTensor> tensors, const Config& config, const LanguageModelOptions& options);

}  // namespace tenon::import::gguf

#endif  // TENON_IMPORT_GGUF_DECODER_H_
