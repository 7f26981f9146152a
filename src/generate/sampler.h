// From scores to a token: penalties, bias, temperature, the cuts (top-k, typical, top-p, min-p), and a random choice that a seed
// makes reproducible.
#ifndef TENON_GENERATE_SAMPLER_H_
#define TENON_GENERATE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tenon::generate {

/// Steps run in this order: bias, penalties, temperature, top_k, typical_p, top_p, min_p.
struct SamplerOptions {
  float temperature = 0.8f;         ///< 0: the best token always (greedy)
  int32_t top_k = 40;               ///< keep the best k; 0: all
  float top_p = 0.95f;              ///< keep the best whose probabilities add up to p; 1: all
  float min_p = 0.05f;              ///< keep those with at least this part of the best one's probability; 0: all
  float typical_p = 1;              ///< keep the most typical (nearest to the entropy) that add up to p; 1: all
  float repetition_penalty = 1;     ///< scores of tokens seen: divided when positive, multiplied when negative
  float frequency_penalty = 0;      ///< subtracted once for each time the token was seen
  float presence_penalty = 0;       ///< subtracted once when the token was seen
  int32_t penalty_window = 64;      ///< so many last tokens count as seen; -1: all
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, float>> logit_bias;   ///< token, what is added to its score (-infinity forbids it)
  int32_t logprobs = 0;             ///< how many alternatives to report with each token, at most 20

  /// kUsage names what is out of range.
  Status Check() const;
};

struct TokenLogprob {
  int32_t id = -1;
  float logprob = 0;
};

class Sampler {
 public:
  explicit Sampler(SamplerOptions options);

  /// Tokens of the prompt count as seen for the penalties.
  void Accept(int32_t id);
  /// The next token for scores of the whole vocabulary, which also counts as seen. Scores that are no numbers are never chosen.
  /// Does not change `logits`. The choice depends on the options, the scores, what was seen and how many were sampled: not on
  /// threads.
  int32_t Sample(std::span<const float> logits);

  /// Of the last sample, in the distribution of the scores as the model gave them (before all steps): the chosen token, then the
  /// best `logprobs`. Empty without logprobs.
  const std::vector<TokenLogprob>& logprobs() const { return logprobs_; }
  const SamplerOptions& options() const { return options_; }

 private:
  struct Candidate {
    int32_t id = 0;
    float score = 0;
    float probability = 0;
  };
  void Gather(std::span<const float> logits);
  void Penalize(std::span<const float> logits);
  void KeepBest(size_t k);
  void Softmax();
  void CutTypical();
  void CutTopP();
  void CutMinP();
  void Report(std::span<const float> logits, int32_t chosen);

  SamplerOptions options_;
  std::vector<Candidate> candidates_;  // sorted by score once cut
  std::vector<int32_t> seen_;  // in order, for the window
  std::unordered_map<int32_t, int32_t> counts_;  // of the tokens in the window
  std::vector<float> changed_;  // scores after bias and penalties
  std::vector<TokenLogprob> logprobs_;
  uint64_t sampled_ = 0;
};

/// A number in [0, 1) from a seed and a counter (SplitMix64's finisher over both): the n-th draw needs none before it.
double UniformAt(uint64_t seed, uint64_t counter);

}  // namespace tenon::generate

#endif  // TENON_GENERATE_SAMPLER_H_
