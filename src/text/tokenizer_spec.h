// What a tokenizer is, as plain data: made from tokenizer.json or from GGUF metadata, kept in an artifact, run by Tokenizer.
//
// Text takes the way of Hugging Face's `tokenizers`: added tokens are cut out, the rest is normalised (`normalizers` in order),
// cut into pieces (`pre_tokenizers` in order), each piece turned into ids by the model (`kind`), and `prefix` and `suffix` put
// around the whole. Decoding maps ids to token texts and applies `decoders` in order.
#ifndef TENON_TEXT_TOKENIZER_SPEC_H_
#define TENON_TEXT_TOKENIZER_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::text {

enum class TokenizerKind : uint8_t {
  kBpe,         ///< merges by rank; byte-level where a step says so, SentencePiece style with byte_fallback
  kScoreBpe,    ///< SentencePiece BPE without a list of merges: the joined token with the best score wins (GGUF "llama")
  kUnigram,     ///< best path by scores
  kWordPiece,   ///< longest match first
};

/// One step of normalising, pre-tokenising or decoding. What `text`, `with` and `flags` mean is said at each kind.
enum class StepKind : uint8_t {
  // Normalisers
  kNfc,
  kNfd,
  kNfkc,
  kNfkd,
  kLowercase,
  kStripAccents,
  kNmt,
  kStrip,          ///< flags: kLeft, kRight
  kPrepend,        ///< text
  kReplace,        ///< text (a pattern with kRegex) -> with; also a decoder
  kBertNormalize,  ///< flags: kCleanText, kChineseChars, kStripAccentsFlag, kLowercaseFlag
  kPrecompiled,    ///< text: SentencePiece's table of character sequences (raw bytes)
  // Pre-tokenisers (and, where said, normalisers or decoders)
  kByteLevel,       ///< flags: kPrefixSpace, kRegex (GPT-2's pattern); also a decoder
  kSplit,           ///< text (a pattern with kRegex), behaviour and kInvert in flags
  kDigits,          ///< flags: kIndividual
  kPunctuation,     ///< behaviour in flags
  kWhitespace,      ///< \w+|[^\w\s]+
  kWhitespaceSplit,
  kBertSplit,
  kMetaspace,  ///< text: the mark for a space; flags: kPrependFirst or kPrependAlways, kIndividual (split); also a decoder
  // Decoders
  kByteFallback,
  kFuse,
  kStripPiece,  ///< text: one character; with: two decimal counts "start stop"
  kWordPieceDecode,  ///< text: prefix of continuing pieces; flags: kCleanUp
  kBpeDecode,  ///< text: suffix of the end of a word
};

enum StepFlags : uint32_t {
  kLeft = 1u << 0,
  kRight = 1u << 1,
  kRegex = 1u << 2,
  kInvert = 1u << 3,
  kIndividual = 1u << 4,
  kPrefixSpace = 1u << 5,
  kPrependFirst = 1u << 6,
  kPrependAlways = 1u << 7,
  kCleanText = 1u << 8,
  kChineseChars = 1u << 9,
  kStripAccentsFlag = 1u << 10,
  kLowercaseFlag = 1u << 11,
  kCleanUp = 1u << 12,
  // What becomes of a match of kSplit and kPunctuation; exactly one of them.
  kRemoved = 1u << 16,
  kIsolated = 1u << 17,
  kMergedWithPrevious = 1u << 18,
  kMergedWithNext = 1u << 19,
  kContiguous = 1u << 20,
};

struct Step {
  StepKind kind = StepKind::kNfc;
  uint32_t flags = 0;
  std::string text;
  std::string with;
};

/// A token matched in the text itself, before the model sees it.
struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = false;  ///< a control token: matched only where the caller allows it, left out of decoded text on wish
  bool lstrip = false;  ///< takes the white space before it
  bool rstrip = false;  ///< takes the white space after it
  bool single_word = false;  ///< only between characters that are no word characters
  bool normalized = false;  ///< matched in the normalised text
};

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::kBpe;
  std::vector<std::string> tokens;  ///< by id, as the file writes them (byte-level tokens in GPT-2's alphabet); "" where unused
  std::vector<double> scores;  ///< kUnigram, kScoreBpe: one a token
  std::vector<std::string> merges;  ///< kBpe: "left right", best first
  std::vector<AddedToken> added;
  std::vector<Step> normalizers;
  std::vector<Step> pre_tokenizers;
  std::vector<Step> decoders;
  std::vector<int32_t> prefix;  ///< ids before and after a text, with `add_special`
  std::vector<int32_t> suffix;

  std::string continuing_prefix;  ///< kWordPiece "##"; kBpe rarely
  std::string end_of_word;  ///< kBpe: appended to the last character of a word ("</w>")
  int32_t max_word_chars = 100;  ///< kWordPiece: longer words are unknown
  bool byte_fallback = false;  ///< unknown characters become <0xNN> tokens
  bool fuse_unknown = false;  ///< neighbouring unknown characters become one token
  bool ignore_merges = false;  ///< kBpe: a piece that is a token stays whole

  // -1 where the model has none.
  int32_t bos = -1, eos = -1, unknown = -1, separator = -1, padding = -1, classify = -1, mask = -1;
  std::vector<int32_t> end_of_turn;  ///< ids that end an answer (eos, eot, eom); never empty when eos >= 0
  bool add_bos = false;  ///< `prefix` begins with bos
  bool add_eos = false;  ///< `suffix` ends with eos
  std::string chat_template;  ///< from tokenizer_config.json; GGUF keeps it under its own key

  /// To and from one string for Program::metadata["tenon.tokenizer"]. Parse checks everything (kBadInput).
  std::string Serialize() const;
  static Result<TokenizerSpec> Parse(std::string_view bytes);
  /// Ids in range, vectors of matching lengths, sizes within limits.
  Status Check() const;
};

/// What the keys tokenizer.ggml.* of a GGUF file hold; absent keys stay empty.
struct GgufTokenizer {
  std::string model;  ///< "gpt2", "llama", "bert", "t5"
  std::string pre;  ///< "smollm", "llama-bpe", "qwen2", ...
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> token_types;  ///< 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<std::string> merges;
  std::string precompiled_charsmap;  ///< raw bytes
  /// Every other scalar key by its name after "tokenizer.ggml.": "bos_token_id", "eot_token_id", "add_bos_token",
  /// "add_space_prefix", "remove_extra_whitespaces", ...; booleans as 0 and 1.
  std::map<std::string, int64_t> scalars;
};
/// kBadInput: contradictory; kUnsupported: a model or pre-tokeniser that Tenon does not know (with the list of those it does).
Result<TokenizerSpec> SpecFromGguf(GgufTokenizer gguf);

/// From the text of tokenizer.json and, where there is one, tokenizer_config.json (special ids, chat template).
Result<TokenizerSpec> SpecFromJson(std::string_view tokenizer_json, std::string_view tokenizer_config_json = {});

}  // namespace tenon::text

#endif  // TENON_TEXT_TOKENIZER_SPEC_H_
