// The steps of a TokenizerSpec made ready to run: normalising, cutting into pieces, joining token texts.
#ifndef TENON_TEXT_STEPS_H_
#define TENON_TEXT_STEPS_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pattern.h"
#include "text/tokenizer_spec.h"

namespace tenon::text {

class CharsMap;

class Normalizer {
 public:
  static Result<Normalizer> Make(const std::vector<Step>& steps);
  bool empty() const { return steps_.empty(); }
  std::string Apply(std::string_view text) const;

 private:
  struct Ready {
    Step step;
    std::shared_ptr<const Pattern> pattern;
    std::shared_ptr<const CharsMap> map;
  };
  static std::string ApplyOne(const Ready& ready, std::string text);
  std::vector<Ready> steps_;
};

class PreTokenizer {
 public:
  /// Working memory of one text: pieces are views of the text or of `owned`.
  struct Work {
    std::vector<std::string_view> pieces;
    std::vector<std::string_view> next;
    std::deque<std::string> owned;
    std::vector<std::unique_ptr<Pattern::Search>> searches;   ///< by step, made when first needed
  };
  static Result<PreTokenizer> Make(const std::vector<Step>& steps);
  /// Cuts `text` into work->pieces. `first`: the text begins the whole input.
  void Apply(std::string_view text, bool first, Work* work) const;

 private:
  struct Ready {
    Step step;
    std::shared_ptr<const Pattern> pattern;
  };
  void ApplyOne(size_t index, bool first, Work* work) const;
  std::vector<Ready> steps_;
};

/// The steps of decoding over token texts; returns the joined text (valid UTF-8).
std::string ApplyDecoders(const std::vector<Step>& steps, std::vector<std::string> tokens);
/// What token `text` adds to a text being written, as raw bytes; `first`: it begins the text.
std::string DecodePiece(const std::vector<Step>& steps, std::string text, bool first);
/// How many leading spaces the decoders take off the whole text.
int LeadingSpacesToStrip(const std::vector<Step>& steps);

/// "<0x41>" -> 0x41; -1: no byte token.
int ByteOfToken(std::string_view token);

/// Replaces every occurrence.
std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to);

}  // namespace tenon::text

#endif  // TENON_TEXT_STEPS_H_
