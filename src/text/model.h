// The models of tokenizers: a piece of text to ids.
#ifndef TENON_TEXT_MODEL_H_
#define TENON_TEXT_MODEL_H_

#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace tenon::text {

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of `piece` (valid UTF-8; any bytes for byte-level BPE). Safe from many threads.
  virtual void Encode(std::string_view piece, std::vector<int32_t>* ids) const = 0;
};

/// What the models share. `texts` by id as the model sees them: raw bytes for byte-level models, empty for what it must never
/// produce (control tokens). All outlive the model.
struct ModelInput {
  const TokenizerSpec* spec = nullptr;
  std::vector<std::string_view> texts;
  Vocabulary vocabulary;              ///< of texts
  const Vocabulary* all = nullptr;    ///< of all tokens, as the file writes them
  std::vector<int32_t> bytes;         ///< the id of <0x00>..<0xFF>, -1 where there is none; empty without byte_fallback
  bool byte_level = false;
};

Result<std::unique_ptr<Model>> MakeBpe(const ModelInput& input);
Result<std::unique_ptr<Model>> MakeUnigram(const ModelInput& input);
Result<std::unique_ptr<Model>> MakeWordPiece(const ModelInput& input);

/// GPT-2's alphabet: every byte as a printable character. -1: no character of it.
int ByteOfAlphabet(char32_t c);
char32_t AlphabetOfByte(unsigned char byte);
/// A token written in the alphabet to raw bytes; false where a character is not of it.
bool FromAlphabet(std::string_view token, std::string* bytes);

}  // namespace tenon::text

#endif  // TENON_TEXT_MODEL_H_
