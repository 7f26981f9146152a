// Flags of the commands that make a language model answer.
#ifndef TENON_CLI_ANSWER_OPTIONS_H_
#define TENON_CLI_ANSWER_OPTIONS_H_

#include "cli/command.h"
#include "generate/text_answer.h"

namespace tenon::cli {

struct AnswerOptions {
  explicit AnswerOptions(int64_t most = 128) : max_tokens(most) {}

  int64_t max_tokens;
  int64_t context = 0;
  int64_t chunk = 512;
  int64_t lookup = 0;
  std::vector<std::string> stop;
  generate::SamplerOptions sampler;

  void Add(CLI::App& app);
  generate::DecoderOptions decoder() const { return {.max_tokens = context, .chunk = chunk}; }
  generate::TextOptions text(const CancelToken& cancel, const generate::SamplerOptions& sampling) const;
  /// What the flags say; where they say nothing what the model's metadata do, and then their defaults.
  Result<generate::SamplerOptions> SamplingOf(const std::map<std::string, std::string>& metadata) const;

 private:
  template <typename T>
  void AddSampling(CLI::App& app, const char* flag, T generate::SamplerOptions::* member, const char* text);
  // Each copies what its flag said, when it was given.
  std::vector<std::function<void(const generate::SamplerOptions& from, generate::SamplerOptions* to)>> given_;
};

/// {"type", "bytes_per_token"}, and the same for people.
Json CacheJson(const kernels::KvShape& cache);
std::string CacheText(const kernels::KvShape& cache);

}  // namespace tenon::cli

#endif  // TENON_CLI_ANSWER_OPTIONS_H_
