// The tokenizer of a Hugging Face folder.
#ifndef TENON_IMPORT_HF_TOKENIZER_FOLDER_H_
#define TENON_IMPORT_HF_TOKENIZER_FOLDER_H_

#include <string>

#include "text/tokenizer_spec.h"

namespace tenon::import {

/// `path`: tokenizer.json; what stands beside it (tokenizer_config.json, generation_config.json, chat_template.jinja) is read
/// with it.
Result<text::TokenizerSpec> ReadFolderTokenizer(const std::string& path);

}  // namespace tenon::import

#endif  // TENON_IMPORT_HF_TOKENIZER_FOLDER_H_
