#include "cli/bench_llm.h"

#include <algorithm>
#include <chrono>

#include "cli/machine.h"
#include "generate/generate.h"

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Tokens that differ, none of them special in common vocabularies.
std::vector<int32_t> SomeTokens(int64_t n, int64_t vocabulary) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>((1000 + i * 37) % vocabulary));
  return tokens;
}

// Seconds of each repetition, sorted; at least three.
Result<std::vector<double>> Measure(double seconds, const std::function<Status()>& once) {
  TENON_RETURN_IF_ERROR(once());   // plans for its shapes are made
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < 3 || std::chrono::duration<double>(Clock::now() - start).count() < seconds) {
    const auto begin = Clock::now();
    TENON_RETURN_IF_ERROR(once());
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

bool IsLanguageModel(const Session& session) {
  const auto it = session.metadata().find("tenon.kind");
  return it != session.metadata().end() && it->second == "decoder";
}

Status BenchLanguageModel(const std::string& model, Session& session, double seconds, Context& context) {
  constexpr int64_t kPrompt = 512, kAnswer = 128;
  TENON_ASSIGN_OR_RETURN(auto decoder, generate::Decoder::Create(session, {.max_tokens = kPrompt + kAnswer}));
  RunOptions run;
  run.cancel = &Interrupted();
  const std::vector<int32_t> prompt = SomeTokens(kPrompt, decoder->vocabulary()),
                             answer = SomeTokens(kAnswer, decoder->vocabulary());
  Json results = Json::array();
  std::vector<std::vector<std::string>> table = {{"test", "runs", "tokens/s", "median ms", "min", "max"}};
  const auto report = [&](const char* name, int64_t tokens, const std::vector<double>& times) {
    const double median = times[times.size() / 2];
    results.push_back({{"model", model},
                       {"test", name},
                       {"threads", session.threads()},
                       {"runs", times.size()},
                       {"tokens_per_s", static_cast<double>(tokens) / median},
                       {"ms", {{"min", times.front() * 1e3}, {"median", median * 1e3}, {"max", times.back() * 1e3}}}});
    const auto ms = [](double s) { return fmt::format("{:.1f}", s * 1e3); };
    table.push_back({name, std::to_string(times.size()), fmt::format("{:.1f}", static_cast<double>(tokens) / median), ms(median),
                     ms(times.front()), ms(times.back())});
  };
  TENON_ASSIGN_OR_RETURN(const auto prefill, Measure(seconds / 2, [&] {
                           decoder->Truncate(0);
                           return decoder->Append(prompt, run);
                         }));
  report("pp512", kPrompt, prefill);
  TENON_ASSIGN_OR_RETURN(const auto decode, Measure(seconds / 2, [&]() -> Status {
                           decoder->Truncate(0);
                           for (const int32_t& token : answer) TENON_RETURN_IF_ERROR(decoder->Append({&token, 1}, run));
                           return {};
                         }));
  report("tg128", kAnswer, decode);
  context.Document({{"results", results}, {"machine", MachineJson()}});
  context.Say(Table(table));
  context.Say(fmt::format("{}, {} threads", MachineText(), session.threads()));
  return {};
}

}  // namespace tenon::cli
