// The language model's side of `tenon bench`: prompts and answers by the names of llama-bench.
#ifndef TENON_CLI_BENCH_LLM_H_
#define TENON_CLI_BENCH_LLM_H_

#include "cli/command.h"

namespace tenon::cli {

/// True for models that `tenon generate` takes.
bool IsLanguageModel(const Session& session);

/// pp512: 512 tokens of prompt; tg128: 128 tokens one by one after an empty prompt. Each is measured for about `seconds`.
Status BenchLanguageModel(const std::string& model, Session& session, double seconds, Context& context);

}  // namespace tenon::cli

#endif  // TENON_CLI_BENCH_LLM_H_
