// An answer as text: the token loop with a sampler, stop strings, and text that comes as soon as it is decided.
#ifndef TENON_GENERATE_TEXT_ANSWER_H_
#define TENON_GENERATE_TEXT_ANSWER_H_

#include <memory>
#include <string>
#include <vector>

#include "generate/generate.h"
#include "generate/sampler.h"
#include "text/tokenizer.h"

namespace tenon::generate {

struct TextOptions {
  LoopOptions loop;
  SamplerOptions sampler;
  std::vector<std::string> stop;      ///< texts that end the answer and are not part of it
};

struct TextAnswer {
  Answer answer;                      ///< `finish` is kStop for a stop string as well
  std::string text;
  std::string stop;                   ///< the stop string that was found; "" for none
  int64_t reused = 0;                 ///< tokens of the prompt that the decoder held already
  double first_token_s = 0;           ///< from the call on
  std::vector<std::vector<TokenLogprob>> logprobs;   ///< of each token, as Sampler::logprobs; empty without them
};

/// Answers `prompt`, the whole sequence; what the decoder holds of its beginning is not run again. `show` (may be empty) gets the
/// text in pieces, which together are `text`: never part of a character, nor what may still become a stop string. `tokenizer`
/// null: ids parted by spaces instead of text. Cancelled before the first token, the answer is empty.
Result<TextAnswer> AnswerText(Decoder& decoder, std::shared_ptr<const text::Tokenizer> tokenizer, std::span<const int32_t> prompt,
                              const TextOptions& options, const std::function<void(const std::string&)>& show = {});

}  // namespace tenon::generate

#endif  // TENON_GENERATE_TEXT_ANSWER_H_
