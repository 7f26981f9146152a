#include "generate/generate.h"

#include <algorithm>
#include <chrono>

#include "generate/lookup.h"

namespace tenon::generate {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int32_t Greedy(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::string_view FinishName(Finish finish) {
  switch (finish) {
    case Finish::kStop: return "stop";
    case Finish::kLength: return "length";
    case Finish::kCancelled: return "cancelled";
  }
  return "";
}

Result<Answer> Generate(Decoder& decoder, std::span<const int32_t> prompt, const LoopOptions& options, const Pick& pick,
                        const std::function<bool(int32_t)>& on_token) {
  Answer answer;
  answer.tokens.reserve(static_cast<size_t>(std::clamp<int64_t>(options.max_tokens, 0, decoder.max_tokens())));
  const auto start = Clock::now();
  TENON_RETURN_IF_ERROR(decoder.Append(prompt, options.run));
  answer.prefill_s = SecondsSince(start);
  const auto decode = Clock::now();
  const int64_t before = decoder.length();
  Lookup lookup(options.lookup);
  Guess guess;            // what the last step held behind its first token
  int64_t checked = 0;    // of the guess, in order: the next scores are those after that many
  while (static_cast<int64_t>(answer.tokens.size()) < options.max_tokens) {
    const int32_t token = pick(guess.empty() ? decoder.logits() : decoder.logits(checked));
    if (std::find(options.stop.begin(), options.stop.end(), token) != options.stop.end()) {
      answer.finish = Finish::kStop;
      break;
    }
    answer.tokens.push_back(token);
    if (on_token && !on_token(token)) {
      answer.finish = Finish::kStop;
      break;
    }
    if (checked < guess.size() && guess[checked] == token) {
      ++checked, ++answer.confirmed;
      continue;
    }
    decoder.Truncate(before + std::ssize(answer.tokens) - 1);
    lookup.Learn(guess.size(), checked);
    if (static_cast<int64_t>(answer.tokens.size()) == options.max_tokens || decoder.length() == decoder.max_tokens()) break;
    const int64_t left = std::min(options.max_tokens - std::ssize(answer.tokens), decoder.max_tokens() - decoder.length() - 1);
    guess = lookup.Find(decoder.tokens(), token, left), checked = 0;
    answer.guessed += guess.size();
    Status status = guess.empty() ? decoder.Append({&token, 1}, options.run) : decoder.AppendScored(guess.step(), options.run);
    if (status.code() == Code::kCancelled) {
      answer.finish = Finish::kCancelled;
      break;
    }
    TENON_RETURN_IF_ERROR(std::move(status));
    ++answer.steps;
  }
  decoder.Truncate(before + std::ssize(answer.tokens));
  answer.decode_s = SecondsSince(decode);
  return answer;
}

}  // namespace tenon::generate
