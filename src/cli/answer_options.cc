#include "cli/answer_options.h"

#include "generate/model_settings.h"

namespace tenon::cli {

template <typename T>
void AnswerOptions::AddSampling(CLI::App& app, const char* flag, T generate::SamplerOptions::* member, const char* text) {
  const CLI::Option* option = app.add_option(flag, sampler.*member, text)->capture_default_str();
  given_.emplace_back([option, member](const generate::SamplerOptions& from, generate::SamplerOptions* to) {
    if (option->count() > 0) to->*member = from.*member;
  });
}

void AnswerOptions::Add(CLI::App& app) {
  const CLI::Range count(int64_t{0}, int64_t{1} << 32);
  app.add_option("--max-tokens", max_tokens, "Most tokens of an answer")->capture_default_str()->check(count);
  app.add_option("--context", context, "Most tokens of prompt and answers; 0: as the model was trained")
      ->capture_default_str()
      ->check(count);
  app.add_option("--chunk", chunk, "Tokens of a prompt that run at one time")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--prompt-lookup", lookup,
                 "Most tokens to guess from what stands in the text already and to check in one step; the answer stays the same")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, generate::Decoder::kMostScored - 1));
  app.add_option("--stop", stop, "Text that ends an answer and is not part of it (repeatable)");
  using S = generate::SamplerOptions;
  AddSampling(app, "--temperature", &S::temperature, "0: the most likely token always");
  AddSampling(app, "--top-k", &S::top_k, "Choose among the best k; 0: all");
  AddSampling(app, "--top-p", &S::top_p, "Choose among the best that add up to p; 1: all");
  AddSampling(app, "--min-p", &S::min_p, "Choose among those with this part of the best one's probability; 0: all");
  AddSampling(app, "--typical-p", &S::typical_p, "Choose among the most typical that add up to p; 1: all");
  AddSampling(app, "--repetition-penalty", &S::repetition_penalty, "Above 1: against repeating");
  AddSampling(app, "--frequency-penalty", &S::frequency_penalty, "Taken off for each time that a token was there");
  AddSampling(app, "--presence-penalty", &S::presence_penalty, "Taken off when a token was there");
  AddSampling(app, "--penalty-window", &S::penalty_window, "Last tokens that the penalties look at; -1: all");
  app.add_option("--seed", sampler.seed, "Of the random choice; the same seed gives the same answer")->capture_default_str();
}

Result<generate::SamplerOptions> AnswerOptions::SamplingOf(const std::map<std::string, std::string>& metadata) const {
  generate::SamplerOptions all = sampler;
  TENON_RETURN_IF_ERROR(generate::TakeModelSettings(metadata, &all));
  for (const auto& copy : given_) copy(sampler, &all);
  return all;
}

generate::TextOptions AnswerOptions::text(const CancelToken& cancel, const generate::SamplerOptions& sampling) const {
  generate::TextOptions text;
  text.loop.max_tokens = max_tokens;
  text.loop.lookup = lookup;
  text.loop.run.cancel = &cancel;
  text.sampler = sampling;
  text.stop = stop;
  return text;
}

Json CacheJson(const kernels::KvShape& cache) {
  return {{"type", kernels::KvTypeName(cache.type)}, {"bytes_per_token", cache.token_bytes()}};
}

std::string CacheText(const kernels::KvShape& cache) {
  return fmt::format("{} of {} a token", Bytes(static_cast<uint64_t>(cache.token_bytes())), kernels::KvTypeName(cache.type));
}

}  // namespace tenon::cli
