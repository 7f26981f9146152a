// Flags of the commands that make a language model answer.
#ifndef TENON_CLI_ANSWER_OPTIONS_H_
#define TENON_CLI_ANSWER_OPTIONS_H_

#include "cli/command.h"
#include "generate/text_answer.h"

namespace tenon::cli {

struct AnswerOptions {
  int64_t max_tokens = 128;
  int64_t context = 0;
  int64_t chunk = 512;
  int64_t lookup = 0;
  std::vector<std::string> stop;
  generate::SamplerOptions sampler;

  void Add(CLI::App& app);
  generate::DecoderOptions decoder() const { return {.max_tokens = context, .chunk = chunk}; }
  generate::TextOptions text(const CancelToken& cancel) const;
};

/// {"type", "bytes_per_token"}, and the same for people.
Json CacheJson(const kernels::KvShape& cache);
std::string CacheText(const kernels::KvShape& cache);

}  // namespace tenon::cli

#endif  // TENON_CLI_ANSWER_OPTIONS_H_
