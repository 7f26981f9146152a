// The token loop: a prompt goes in, tokens come out one by one until something ends the answer.
#ifndef TENON_GENERATE_GENERATE_H_
#define TENON_GENERATE_GENERATE_H_

#include <functional>
#include <string_view>
#include <vector>

#include "generate/decoder.h"

namespace tenon::generate {

/// Chooses the next token from the scores of all; may change them.
using Pick = std::function<int32_t(std::span<const float> logits)>;

/// The token with the highest score, the first of equals.
int32_t Greedy(std::span<const float> logits);

struct LoopOptions {
  int64_t max_tokens = 128;           ///< of the answer
  std::vector<int32_t> stop;          ///< ids that end it and are not part of it
  /// Most tokens that are guessed from what stands in the sequence already and checked in one step; 0: none. The answer is the
  /// same.
  int64_t lookup = 0;
  RunOptions run;
};

enum class Finish { kStop, kLength, kCancelled };
std::string_view FinishName(Finish finish);   ///< "stop", "length", "cancelled"

struct Answer {
  std::vector<int32_t> tokens;
  Finish finish = Finish::kLength;
  double prefill_s = 0;               ///< prompt to the scores of the first token
  double decode_s = 0;                ///< the steps after it
  int64_t steps = 0;                  ///< that many of them
  int64_t guessed = 0, confirmed = 0;   ///< tokens of the answer, by lookup

  double PrefillRate(int64_t prompt_tokens) const { return prefill_s > 0 ? static_cast<double>(prompt_tokens) / prefill_s : 0; }
  double DecodeRate() const { return decode_s > 0 ? static_cast<double>(steps + confirmed) / decode_s : 0; }
};

/// Appends `prompt` and then the answer to the decoder's sequence. `on_token` (may be empty) sees each token and says whether to
/// go on. A full context ends the answer as `kLength`.
Result<Answer> Generate(Decoder& decoder, std::span<const int32_t> prompt, const LoopOptions& options, const Pick& pick,
                        const std::function<bool(int32_t)>& on_token = {});

}  // namespace tenon::generate

#endif  // TENON_GENERATE_GENERATE_H_
