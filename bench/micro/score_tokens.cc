// What a language model makes of a text: for each token the best guess at the next one, and the probability of the right one.
// usage: bench_score_tokens MODEL THREADS IDS [LENGTH [KV_CACHE]] > scores
// IDS holds int32 token ids; stretches of LENGTH (512) tokens are scored apart from each other. Each row of the output is
//   position, best guess fed one by one, log-probability of the next token, the same two after the tokens before came as one
//   prompt
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "generate/decoder.h"
#include "generate/generate.h"
#include "tenon/compile.h"

using tenon::generate::Decoder;

namespace {

struct Score {
  int32_t best = 0;
  double log_probability = 0;
};

Score Of(std::span<const float> logits, int32_t next) {
  const int32_t best = tenon::generate::Greedy(logits);
  const double most = logits[static_cast<size_t>(best)];
  double sum = 0;
  for (const float v : logits) sum += std::exp(v - most);
  return {best, logits[static_cast<size_t>(next)] - most - std::log(sum)};
}

tenon::Status Stretch(Decoder& decoder, std::span<const int32_t> tokens, size_t first) {
  std::vector<Score> single(tokens.size() - 1), prompt(tokens.size() - 1);
  decoder.Truncate(0);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (auto s = decoder.Append(tokens.subspan(i, 1)); !s.ok()) return s;
    single[i] = Of(decoder.logits(), tokens[i + 1]);
  }
  decoder.Truncate(0);
  if (auto s = decoder.Append(tokens); !s.ok()) return s;
  // Backwards, so that what comes before a token is still what the prompt left.
  for (size_t i = tokens.size() - 1; i-- > 0;) {
    decoder.Truncate(static_cast<int64_t>(i));
    if (auto s = decoder.Append(tokens.subspan(i, 1)); !s.ok()) return s;
    prompt[i] = Of(decoder.logits(), tokens[i + 1]);
  }
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    std::printf("%zu %d %.6f %d %.6f\n", first + i, single[i].best, single[i].log_probability, prompt[i].best,
                prompt[i].log_probability);
  }
  return {};
}

tenon::Status Run(const char* model, int threads, const std::vector<int32_t>& ids, size_t length, const char* kv_cache) {
  tenon::SessionOptions options;
  options.threads = threads;
  tenon::CompileOptions compile;
  compile.kv_cache = kv_cache;
  auto session = tenon::OpenModel(model, compile, options);
  if (!session.ok()) return session.status();
  auto decoder = Decoder::Create(**session, {.max_tokens = static_cast<int64_t>(length)});
  if (!decoder.ok()) return decoder.status();
  for (size_t i = 0; i + 1 < ids.size(); i += length) {
    const std::span<const int32_t> part(ids.data() + i, std::min(length, ids.size() - i));
    if (part.size() < 2) break;
    if (auto s = Stretch(**decoder, part, i); !s.ok()) return s;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: bench_score_tokens MODEL THREADS IDS [LENGTH [KV_CACHE]]\n");
    return 2;
  }
  std::ifstream file(argv[3], std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<int32_t> ids(bytes.size() / 4);
  std::copy(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(ids.size() * 4), reinterpret_cast<char*>(ids.data()));
  const tenon::Status status =
      Run(argv[1], std::atoi(argv[2]), ids, argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 512, argc > 5 ? argv[5] : "f16");
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
