// The tokenizer in a GGUF file's metadata.
#ifndef TENON_IMPORT_GGUF_TOKENIZER_METADATA_H_
#define TENON_IMPORT_GGUF_TOKENIZER_METADATA_H_

#include <string>

#include "tensor/gguf.h"
#include "text/tokenizer_spec.h"

namespace tenon::import {

/// The tokenizer, and the chat template with it (empty where the file has none). kBadInput: the file has no tokenizer.
Result<text::TokenizerSpec> ReadGgufTokenizer(const GgufFile& file);

}  // namespace tenon::import

#endif  // TENON_IMPORT_GGUF_TOKENIZER_METADATA_H_
