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
  /// Scores of every token to come next, after the last Append.
  std::span<const float> logits() const { return logits_; }

  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t max_tokens() const { return max_tokens_; }
  int64_t vocabulary() const { return static_cast<int64_t>(logits_.size()); }
  /// The tokens of the sequence.
  std::span<const int32_t> tokens() const { return tokens_; }
  /// Forgets all tokens but the first n.
  void Truncate(int64_t n);
  /// Forgets all but what a prompt begins with too; returns how many tokens stay, fewer than the prompt has, so that the rest of
  /// it, appended, gives scores.
  int64_t Reuse(std::span<const int32_t> prompt);

 private:
  Decoder(Session& session, std::unique_ptr<runtime::KvPool> pool, int64_t max_tokens, int64_t chunk, int64_t vocabulary);
  Status Step(std::span<const int32_t> tokens, bool last, const RunOptions& options);

  Session& session_;
  std::unique_ptr<runtime::KvPool> pool_;
  int64_t max_tokens_, chunk_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> blocks_;
  std::vector<int64_t> ids_;
  std::vector<float> logits_;
  kernels::KvSequence sequence_;
  kernels::KvStep step_;
  int32_t output_row_ = 0;
  HostTensor input_, output_;
};

}  // namespace tenon::generate

#endif  // TENON_GENERATE_DECODER_H_
