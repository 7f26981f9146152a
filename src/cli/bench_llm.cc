#include "cli/bench_llm.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "cli/answer_options.h"
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

// Seconds of each repetition, sorted. `first`: of the one before them, which makes plans for its shapes.
Result<std::vector<double>> Measure(double seconds, size_t least, const std::function<Status()>& once, double* first = nullptr) {
  const auto cold = Clock::now();
  TENON_RETURN_IF_ERROR(once());
  if (first != nullptr) *first = std::chrono::duration<double>(Clock::now() - cold).count();
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < least || std::chrono::duration<double>(Clock::now() - start).count() < seconds) {
    const auto begin = Clock::now();
    TENON_RETURN_IF_ERROR(once());
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times;
}

constexpr int64_t kPrompt = 512, kAnswer = 128;

struct Times {
  double first_token = 0;               // seconds from a session that is open to the scores after its first prompt
  std::vector<double> prefill, decode;  // of a whole prompt and a whole answer, sorted
  kernels::KvShape cache;

  static double Median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }
  double PrefillRate() const { return static_cast<double>(kPrompt) / Median(prefill); }
  double DecodeRate() const { return static_cast<double>(kAnswer) / Median(decode); }
};

Result<Times> MeasureBoth(Session& session, int64_t depth, double seconds, size_t least) {
  TENON_ASSIGN_OR_RETURN(auto decoder, generate::Decoder::Create(session, {.max_tokens = depth + kPrompt + kAnswer}));
  RunOptions run;
  run.cancel = &Interrupted();
  if (depth > 0) TENON_RETURN_IF_ERROR(decoder->Append(SomeTokens(depth, decoder->vocabulary()), run));
  const std::vector<int32_t> prompt = SomeTokens(kPrompt, decoder->vocabulary()),
                             answer = SomeTokens(kAnswer, decoder->vocabulary());
  Times times;
  times.cache = decoder->cache();
  const auto read_prompt = [&] {
    decoder->Truncate(depth);
    return decoder->Append(prompt, run);
  };
  TENON_ASSIGN_OR_RETURN(times.prefill, Measure(seconds / 2, least, read_prompt, &times.first_token));
  const auto write_answer = [&]() -> Status {
    decoder->Truncate(depth);
    for (const int32_t& token : answer) TENON_RETURN_IF_ERROR(decoder->Append({&token, 1}, run));
    return {};
  };
  TENON_ASSIGN_OR_RETURN(times.decode, Measure(seconds / 2, least, write_answer));
  return times;
}

// Resident bytes of this process.
Result<double> ResidentBytes() {
  malloc_trim(0);
  std::ifstream statm("/proc/self/statm");
  double all = 0, resident = 0;
  if (!(statm >> all >> resident)) return Internal("/proc/self/statm cannot be read");
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

struct BenchStep {
  const char* name;
  const char* weights;
  int opt_level;
};
constexpr BenchStep kSteps[] = {{"plain", "f32", 0}, {"fused", "f32", 99}, {"tuned", "file", 99}};

}  // namespace

bool IsLanguageModel(const Session& session) {
  const auto it = session.metadata().find("tenon.kind");
  return it != session.metadata().end() && it->second == "decoder";
}

Status BenchLanguageModel(const std::string& model, Session& session, int64_t depth, double seconds, Context& context) {
  TENON_ASSIGN_OR_RETURN(const Times measured, MeasureBoth(session, depth, seconds, 3));
  Json results = Json::array();
  std::vector<std::vector<std::string>> table = {{"test", "runs", "tokens/s", "median ms", "min", "max"}};
  const auto report = [&](std::string name, int64_t tokens, const std::vector<double>& times) {
    if (depth > 0) name += fmt::format(" @ d{}", depth);   // as llama-bench has it
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
  report("pp512", kPrompt, measured.prefill);
  report("tg128", kAnswer, measured.decode);
  context.Document({{"results", results}, {"cache", CacheJson(measured.cache)}, {"machine", MachineJson()}});
  context.Say(Table(table));
  context.Say(fmt::format("{}, {} threads, cache {}", MachineText(), session.threads(), CacheText(measured.cache)));
  return {};
}

Status BenchSteps(const ModelOptions& options, double seconds, Context& context) {
  Json results = Json::array();
  std::vector<std::vector<std::string>> table = {{"step", "first token ms", "pp512/s", "tg128/s", "MB"}};
  for (const BenchStep& step : kSteps) {
    CompileOptions compile = options.compile;
    compile.weights = step.weights, compile.opt_level = step.opt_level;
    TENON_ASSIGN_OR_RETURN(const double before, ResidentBytes());
    TENON_ASSIGN_OR_RETURN(auto session, OpenModel(options.model, compile, options.session, options.cache_dir));
    if (!IsLanguageModel(*session)) return Usage("'{}' is no language model that generates; --steps is for those", options.model);
    TENON_ASSIGN_OR_RETURN(const Times times, MeasureBoth(*session, 0, seconds, 1));
    TENON_ASSIGN_OR_RETURN(const double after, ResidentBytes());
    const double bytes = std::max(0.0, after - before);
    results.push_back({{"model", options.model},
                       {"step", step.name},
                       {"threads", session->threads()},
                       {"first_token_ms", times.first_token * 1e3},
                       {"pp512_tokens_per_s", times.PrefillRate()},
                       {"tg128_tokens_per_s", times.DecodeRate()},
                       {"resident_bytes", bytes}});
    table.push_back({step.name, fmt::format("{:.1f}", times.first_token * 1e3), fmt::format("{:.1f}", times.PrefillRate()),
                     fmt::format("{:.1f}", times.DecodeRate()), fmt::format("{:.1f}", bytes / 1e6)});
  }
  context.Document({{"results", results}, {"machine", MachineJson()}});
  context.Say(Table(table));
  context.Say(MachineText());
  return {};
}

}  // namespace tenon::cli
