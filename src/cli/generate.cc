// tenon generate: one prompt in, one answer out.
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/mapped_file.h"
#include "cli/bench_llm.h"
#include "cli/model_options.h"
#include "cli/text_model.h"
#include "generate/generate.h"
#include "generate/sampler.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  ModelOptions model;
  std::string prompt, prompt_file;
  std::vector<int32_t> prompt_tokens;
  int64_t max_tokens = 128;
  int64_t context = 0;
  bool ignore_eos = false, raw = false;
  generate::SamplerOptions sampler;
};

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string TokenText(const text::TokenizerSpec& spec, int32_t id) {
  return id >= 0 && static_cast<size_t>(id) < spec.tokens.size() ? spec.tokens[static_cast<size_t>(id)] : std::string();
}

// The prompt as the model takes it: with the chat template, which writes its own special tokens, or as it is.
Result<std::vector<int32_t>> Encode(const Options& options, const text::Tokenizer& tokenizer, const std::string& prompt) {
  const text::TokenizerSpec& spec = tokenizer.spec();
  if (options.raw || spec.chat_template.empty()) return tokenizer.Encode(prompt);
  TENON_ASSIGN_OR_RETURN(const auto chat, text::ChatTemplate::Parse(spec.chat_template));
  text::ChatInput input;
  input.messages_json = text::MessagesJson({{"user", prompt}});
  input.bos_token = TokenText(spec, spec.bos), input.eos_token = TokenText(spec, spec.eos);
  TENON_ASSIGN_OR_RETURN(const auto rendered, chat->Render(input));
  return tokenizer.EncodeTrusted(rendered.text, rendered.trusted, false);
}

Result<std::vector<int32_t>> PromptOf(const Options& options, const text::Tokenizer* tokenizer) {
  if (!options.prompt_tokens.empty()) return options.prompt_tokens;
  std::string prompt = options.prompt;
  if (!options.prompt_file.empty()) {
    TENON_ASSIGN_OR_RETURN(prompt, ReadFile(options.prompt_file, uint64_t{64} << 20));
  }
  if (prompt.empty()) return Usage("no prompt; give --prompt, --prompt-file or --prompt-tokens");
  return Encode(options, *tokenizer, prompt);
}

Status Run(Options& options, Context& context) {
  TENON_RETURN_IF_ERROR(options.sampler.Check());
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
  TENON_ASSIGN_OR_RETURN(auto decoder, generate::Decoder::Create(*session, {.max_tokens = options.context}));
  const double load_ms = MsSince(start);
  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, PromptOf(options, tokenizer.get()));
  generate::Sampler sampler(options.sampler);
  for (int32_t id : prompt) sampler.Accept(id);
  generate::LoopOptions loop;
  loop.max_tokens = options.max_tokens;
  loop.run.cancel = &Interrupted();
  if (!options.ignore_eos && tokenizer != nullptr) loop.stop = tokenizer->spec().end_of_turn;
  std::unique_ptr<text::StreamDecoder> stream;
  if (tokenizer != nullptr) stream = std::make_unique<text::StreamDecoder>(tokenizer);
  std::string answer_text;
  double first_ms = 0;
  const auto show = [&](const std::string& piece) {
    answer_text += piece;
    if (context.json) return;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  };
  const auto begin = Clock::now();
  TENON_ASSIGN_OR_RETURN(const generate::Answer answer,
                         generate::Generate(
                             *decoder, prompt, loop, [&](std::span<const float> logits) { return sampler.Sample(logits); },
                             [&](int32_t token) {
                               if (first_ms == 0) first_ms = MsSince(begin);
                               show(stream != nullptr ? stream->Add(token) : std::to_string(token) + " ");
                               return true;
                             }));
  if (stream != nullptr) show(stream->Finish());
  if (!context.json) std::fputs("\n", stdout);
  const auto count = static_cast<int64_t>(answer.tokens.size()), given = static_cast<int64_t>(prompt.size());
  context.Document({{"text", answer_text},
                    {"tokens", answer.tokens},
                    {"finish_reason", generate::FinishName(answer.finish)},
                    {"usage", {{"prompt_tokens", given}, {"completion_tokens", count}, {"total_tokens", given + count}}},
                    {"timings",
                     {{"load_ms", load_ms},
                      {"ttft_ms", first_ms},
                      {"prefill_tokens_per_s", answer.PrefillRate(given)},
                      {"decode_tokens_per_s", answer.DecodeRate()}}}});
  return {};
}

}  // namespace

Command Make_generate() {
  return {
      "generate", "answer a prompt with a language model",
      "tenon generate model.gguf --prompt 'Why is the sky blue?' --max-tokens 64", [](CLI::App& app) {
        auto options = std::make_shared<Options>();
        options->model.AddModel(app);
        app.add_option("--prompt", options->prompt, "Text of the prompt");
        app.add_option("--prompt-file", options->prompt_file, "File with the text of the prompt");
        app.add_option("--prompt-tokens", options->prompt_tokens, "Ids of the prompt, as 1,4093,198")->delimiter(',');
        app.add_option("--max-tokens", options->max_tokens, "Most tokens of the answer")
            ->capture_default_str()
            ->check(CLI::Range(int64_t{0}, int64_t{1} << 32));
        app.add_option("--context", options->context, "Most tokens of prompt and answer; 0: as the model was trained")
            ->capture_default_str()
            ->check(CLI::Range(int64_t{0}, int64_t{1} << 32));
        app.add_option("--temperature", options->sampler.temperature, "0: the most likely token always")->capture_default_str();
        app.add_option("--seed", options->sampler.seed, "Of the random choice; the same seed gives the same answer")
            ->capture_default_str();
        app.add_flag("--ignore-eos", options->ignore_eos, "Go on where the model would end its answer");
        app.add_flag("--raw", options->raw, "The prompt as it is, without the model's chat template");
        options->model.AddCompile(app);
        options->model.AddSession(app);
        return [options](Context& context) { return Run(*options, context); };
      }};
}

}  // namespace tenon::cli
