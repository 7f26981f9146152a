// The language model's side of `tenon bench`: prompts and answers by the names of llama-bench.
#ifndef TENON_CLI_BENCH_LLM_H_
#define TENON_CLI_BENCH_LLM_H_

#include "cli/model_options.h"

namespace tenon::cli {

/// True for models that `tenon generate` takes.
bool IsLanguageModel(const Session& session);

/// pp512: 512 tokens of prompt; tg128: 128 tokens one by one; both after a prompt of `depth` tokens. Each is measured for about
/// `seconds`.
Status BenchLanguageModel(const std::string& model, Session& session, int64_t depth, double seconds, Context& context);

/// What a language model gains step by step: "plain", operators of ONNX on f32 weights, none fused; "fused", all passes on the
/// same weights; "tuned", weights as they lie in the file and the kernels made for them. Each step is what its own flags give a
/// user.
Status BenchSteps(const ModelOptions& options, double seconds, Context& context);

}  // namespace tenon::cli

#endif  // TENON_CLI_BENCH_LLM_H_
