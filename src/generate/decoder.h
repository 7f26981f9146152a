// One sequence of a language model: tokens go in, in chunks or one by one, and the scores of the next token come out.
#ifndef TENON_GENERATE_DECODER_H_
#define TENON_GENERATE_DECODER_H_

#include <memory>
#include <span>
#include <vector>

#include "runtime/kv_pool.h"
#include "tenon/session.h"

namespace tenon::generate {

struct DecoderOptions {
  int64_t max_tokens = 0;     ///< of the sequence, prompt and answer; 0: the context that the model was trained for
  int64_t chunk = 512;        ///< tokens of one step of a prompt
};

/// Uses its session alone while it lives.
class Decoder {
 public:
  static Result<std::unique_ptr<Decoder>> Create(Session& session, const DecoderOptions& options = {});
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Appends tokens. kUsage for none or too many; kBadInput for ids that the model does not have; kCancelled within one operator
  /// after `cancel` was set, and then `length()` tells how many went in.
  Status Append(std::span<const int32_t> tokens, const RunOptions& options = {});
  /// The same for at most kMostScored tokens in one step, with scores after each of them: those that one Append after the other
  /// would have given.
  Status AppendScored(std::span<const int32_t> tokens, const RunOptions& options = {});
  static constexpr int64_t kMostScored = 8;
  /// Scores of every token to come next, after the last Append; after AppendScored, of what follows token i.
  std::span<const float> logits() const { return logits(scored_ - 1); }
  std::span<const float> logits(int64_t i) const { return {logits_.data() + i * vocabulary_, static_cast<size_t>(vocabulary_)}; }

  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t max_tokens() const { return max_tokens_; }
  int64_t vocabulary() const { return vocabulary_; }
  /// What the cache keeps of each token.
  const kernels::KvShape& cache() const { return pool_->shape(); }
  /// The tokens of the sequence.
  std::span<const int32_t> tokens() const { return tokens_; }
  /// Forgets all tokens but the first n.
  void Truncate(int64_t n);
  /// Forgets all but what a prompt begins with too; returns how many tokens stay, fewer than the prompt has, so that the rest of
  /// it, appended, gives scores.
  int64_t Reuse(std::span<const int32_t> prompt);

 private:
  Decoder(Session& session, std::unique_ptr<runtime::KvPool> pool, int64_t max_tokens, int64_t chunk, int64_t vocabulary);
  /// Scores are wanted of the last `scored` tokens.
  Status Step(std::span<const int32_t> tokens, int64_t scored, const RunOptions& options);

  Session& session_;
  std::unique_ptr<runtime::KvPool> pool_;
  int64_t max_tokens_, chunk_, vocabulary_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> blocks_;
  std::vector<int64_t> ids_;
  std::vector<float> logits_;  // of the last step, row by row
  int64_t scored_ = 1;  // rows of them
  kernels::KvSequence sequence_;
  kernels::KvStep step_;
  int32_t output_rows_[kMostScored] = {};
  HostTensor input_, output_;
};

}  // namespace tenon::generate

#endif  // TENON_GENERATE_DECODER_H_
