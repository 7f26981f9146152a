// tenon generate: one prompt in, one answer out.
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/bench_llm.h"
#include "cli/model_options.h"
#include "generate/generate.h"

namespace tenon::cli {
namespace {

struct Options {
  ModelOptions model;
  std::vector<int32_t> prompt_tokens;
  int64_t max_tokens = 128;
  int64_t context = 0;
};

Status Run(Options& options, Context& context) {
  const auto start = std::chrono::steady_clock::now();
  const auto ms_since_start = [&] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  TENON_ASSIGN_OR_RETURN(auto session, options.model.Open(context));
  if (!IsLanguageModel(*session)) return Usage("'{}' is no language model that generates", options.model.model);
  TENON_ASSIGN_OR_RETURN(auto decoder, generate::Decoder::Create(*session, {.max_tokens = options.context}));
  const double load_ms = ms_since_start();
  generate::LoopOptions loop;
  loop.max_tokens = options.max_tokens;
  loop.run.cancel = &Interrupted();
  double first_ms = 0;
  TENON_ASSIGN_OR_RETURN(const generate::Answer answer,
                         generate::Generate(*decoder, options.prompt_tokens, loop, generate::Greedy, [&](int32_t token) {
                           if (first_ms == 0) first_ms = ms_since_start() - load_ms;
                           context.Say(std::to_string(token));
                           return true;
                         }));
  const auto prompt = static_cast<int64_t>(options.prompt_tokens.size());
  const auto count = static_cast<int64_t>(answer.tokens.size());
  context.Document({{"tokens", answer.tokens},
                    {"finish_reason", generate::FinishName(answer.finish)},
                    {"usage", {{"prompt_tokens", prompt}, {"completion_tokens", count}, {"total_tokens", prompt + count}}},
                    {"timings",
                     {{"load_ms", load_ms},
                      {"ttft_ms", first_ms},
                      {"prefill_tokens_per_s", answer.PrefillRate(prompt)},
                      {"decode_tokens_per_s", answer.DecodeRate()}}}});
  return {};
}

}  // namespace

Command Make_generate() {
  return {
      "generate", "answer a prompt with a language model", "tenon generate model.gguf --prompt-tokens 1,4093,198 --max-tokens 32",
      [](CLI::App& app) {
        auto options = std::make_shared<Options>();
        options->model.AddModel(app);
        app.add_option("--prompt-tokens", options->prompt_tokens, "Ids of the prompt, as 1,4093,198")->delimiter(',')->required();
        app.add_option("--max-tokens", options->max_tokens, "Most tokens of the answer")
            ->capture_default_str()
            ->check(CLI::Range(int64_t{0}, int64_t{1} << 32));
        app.add_option("--context", options->context, "Most tokens of prompt and answer; 0: as the model was trained")
            ->capture_default_str()
            ->check(CLI::Range(int64_t{0}, int64_t{1} << 32));
        options->model.AddCompile(app);
        options->model.AddSession(app);
        return [options](Context& context) { return Run(*options, context); };
      }};
}

}  // namespace tenon::cli
