// Text to token ids and back, exactly as Hugging Face's `tokenizers` does it for the same files.
#ifndef TENON_TEXT_TOKENIZER_H_
#define TENON_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"

namespace tenon::text {

struct EncodeOptions {
  bool add_special = true;     ///< put the model's prefix and suffix (BOS, [CLS] ...) around the ids
  bool parse_special = true;   ///< control tokens written in the text become control tokens; false: they are text
};

/// Immutable; all calls are safe from many threads.
class Tokenizer {
 public:
  /// kBadInput, kUnsupported: the specification does not hold together, or asks for what Tenon cannot do.
  static Result<std::shared_ptr<const Tokenizer>> Create(TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  const TokenizerSpec& spec() const;
  int32_t size() const { return static_cast<int32_t>(spec().tokens.size()); }

  /// What is no valid UTF-8 in `text` becomes U+FFFD first.
  std::vector<int32_t> Encode(std::string_view text, EncodeOptions options = {}) const;
  /// `trusted` has one byte per byte of `text` (valid UTF-8): control tokens are seen only where all their bytes are nonzero.
  /// So a rendered chat template keeps its own control tokens and the messages inside it get none.
  std::vector<int32_t> EncodeTrusted(std::string_view text, std::string_view trusted, bool add_special) const;

  /// Ids out of range are left out.
  std::string Decode(std::span<const int32_t> ids, bool skip_special = true) const;
  /// What `id` adds to a text, raw bytes (may be part of a character). `first`: it begins the text.
  std::string Piece(int32_t id, bool first = false) const;

  /// The id of a token written as in the file; -1: no such token.
  int32_t Find(std::string_view token) const;
  bool IsSpecial(int32_t id) const;
  bool EndsTurn(int32_t id) const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<const State> state_;
};

/// Text of an answer as its tokens come: never part of a character, and together what Decode gives for the whole.
class StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = true);
  /// The text that `id` completes; "" while a character is not whole.
  std::string Add(int32_t id);
  /// What is left: a broken character becomes U+FFFD.
  std::string Finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_ = true;
  bool first_ = true;
  int strip_ = 0;          ///< leading spaces still to take off
  std::string pending_;    ///< bytes of a character that is not whole yet
};

}  // namespace tenon::text

#endif  // TENON_TEXT_TOKENIZER_H_
