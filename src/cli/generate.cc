// tenon generate: one prompt in, one answer out.
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/mapped_file.h"
#include "cli/answer_options.h"
#include "cli/bench_llm.h"
#include "cli/model_options.h"
#include "cli/text_model.h"
#include "generate/text_answer.h"
#include "text/chat_prompt.h"

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  ModelOptions model;
  AnswerOptions answer;
  std::string prompt, prompt_file;
  std::vector<int32_t> prompt_tokens;
  bool ignore_eos = false, raw = false;
};

// The prompt as the model takes it: with the chat template, which writes its own special tokens, or as it is.
Result<std::vector<int32_t>> PromptOf(const Options& options, const text::Tokenizer* tokenizer) {
  if (!options.prompt_tokens.empty()) return options.prompt_tokens;
  std::string prompt = options.prompt;
  if (!options.prompt_file.empty()) {
    TENON_ASSIGN_OR_RETURN(prompt, ReadFile(options.prompt_file, uint64_t{64} << 20));
  }
  if (prompt.empty()) return Usage("no prompt; give --prompt, --prompt-file or --prompt-tokens");
  const std::string& source = tokenizer->spec().chat_template;
  if (options.raw || source.empty()) return tokenizer->Encode(prompt);
  TENON_ASSIGN_OR_RETURN(const auto chat, text::ChatTemplate::Parse(source));
  return text::EncodeChat(*chat, *tokenizer, {{"user", prompt}});
}

Json LogprobsJson(const generate::TextAnswer& answer, const text::Tokenizer* tokenizer) {
  const auto entry = [&](const generate::TokenLogprob& t) {
    Json j = {{"id", t.id}, {"logprob", t.logprob}};
    if (tokenizer != nullptr) j["token"] = tokenizer->Decode({&t.id, 1}, false);
    return j;
  };
  Json all = Json::array();
  for (const auto& token : answer.logprobs) {
    Json j = entry(token.front());
    j["top"] = Json::array();
    for (size_t i = 1; i < token.size(); ++i) j["top"].push_back(entry(token[i]));
    all.push_back(std::move(j));
  }
  return all;
}

Status Run(Options& options, Context& context) {
  TENON_RETURN_IF_ERROR(options.answer.sampler.Check());
  if (options.answer.sampler.logprobs > 0 && !context.json) return Usage("--logprobs is told in JSON; give --json as well");
  const auto start = Clock::now();
  TENON_ASSIGN_OR_RETURN(auto session, options.model.Open(context));
  if (!IsLanguageModel(*session)) return Usage("'{}' is no language model that generates", options.model.model);
  std::shared_ptr<const text::Tokenizer> tokenizer;
  auto spec = LoadTokenizerSpec(options.model.model);
  if (spec.ok()) {
    TENON_ASSIGN_OR_RETURN(tokenizer, text::Tokenizer::Create(std::move(spec).value()));
  } else if (options.prompt_tokens.empty()) {
    return spec.status();
  }
  TENON_ASSIGN_OR_RETURN(auto decoder, generate::Decoder::Create(*session, options.answer.decoder()));
  const double load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, PromptOf(options, tokenizer.get()));
  TENON_ASSIGN_OR_RETURN(const generate::SamplerOptions sampling, options.answer.SamplingOf(session->metadata()));
  generate::TextOptions how = options.answer.text(Interrupted(), sampling);
  if (!options.ignore_eos && tokenizer != nullptr) how.loop.stop = tokenizer->spec().end_of_turn;
  TENON_ASSIGN_OR_RETURN(const generate::TextAnswer answer,
                         generate::AnswerText(*decoder, tokenizer, prompt, how, [&](const std::string& piece) {
                           if (context.json) return;
                           std::fwrite(piece.data(), 1, piece.size(), stdout);
                           std::fflush(stdout);
                         }));
  if (!context.json) std::fputs("\n", stdout);
  const auto count = static_cast<int64_t>(answer.answer.tokens.size()), given = static_cast<int64_t>(prompt.size());
  Json document = {{"text", answer.text},
                   {"tokens", answer.answer.tokens},
                   {"finish_reason", generate::FinishName(answer.answer.finish)},
                   {"usage", {{"prompt_tokens", given}, {"completion_tokens", count}, {"total_tokens", given + count}}},
                   {"cache", CacheJson(decoder->cache())},
                   {"timings",
                    {{"load_ms", load_ms},
                     {"ttft_ms", answer.first_token_s * 1e3},
                     {"prefill_tokens_per_s", answer.answer.PrefillRate(given)},
                     {"decode_tokens_per_s", answer.answer.DecodeRate()}}}};
  if (options.answer.lookup > 0)
    document["prompt_lookup"] = {{"guessed", answer.answer.guessed}, {"confirmed", answer.answer.confirmed}};
  if (!answer.stop.empty()) document["stop"] = answer.stop;
  if (options.answer.sampler.logprobs > 0) document["logprobs"] = LogprobsJson(answer, tokenizer.get());
  context.Document(document);
  return {};
}

}  // namespace

Command Make_generate() {
  return {"generate", "answer a prompt with a language model",
          "tenon generate model.gguf --prompt 'Why is the sky blue?' --max-tokens 64", [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            options->model.AddModel(app);
            app.add_option("--prompt", options->prompt, "Text of the prompt");
            app.add_option("--prompt-file", options->prompt_file, "File with the text of the prompt");
            app.add_option("--prompt-tokens", options->prompt_tokens, "Ids of the prompt, as 1,4093,198")->delimiter(',');
            options->answer.Add(app);
            app.add_option("--logprobs", options->answer.sampler.logprobs,
                           "With each token the logarithm of its probability, and of the N best (with --json)")
                ->check(CLI::Range(1, 20));
            app.add_flag("--ignore-eos", options->ignore_eos, "Go on where the model would end its answer");
            app.add_flag("--raw", options->raw, "The prompt as it is, without the model's chat template");
            options->model.AddCompile(app);
            options->model.AddSession(app);
            return [options](Context& context) { return Run(*options, context); };
          }};
}

}  // namespace tenon::cli
