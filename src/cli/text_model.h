// The text side of a model: its tokenizer, from whatever the model is kept in.
#ifndef TENON_CLI_TEXT_MODEL_H_
#define TENON_CLI_TEXT_MODEL_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "text/tokenizer_spec.h"

namespace tenon::cli {

/// The tokenizer of a .gguf, a .tenon, a Hugging Face folder or a tokenizer.json, with the chat template where there is one.
Result<text::TokenizerSpec> LoadTokenizerSpec(const std::string& model);

/// The lines of a text file (only LF ends one), or the strings of a .jsonl file, one a line.
Result<std::vector<std::string>> ReadLines(const std::string& path);

}  // namespace tenon::cli

#endif  // TENON_CLI_TEXT_MODEL_H_
