#include "generate/lookup.h"

#include <algorithm>

namespace tenon::generate {
namespace {

constexpr int64_t kLongest = 3, kShortest = 2;   // of what must be the same
constexpr int64_t kFirst = 4;                    // tokens of the first guess

}  // namespace

Lookup::Lookup(int64_t most) : most_(std::clamp<int64_t>(most, 0, Decoder::kMostScored - 1)), length_(std::min(kFirst, most_)) {}

Guess Lookup::Find(std::span<const int32_t> tokens, int32_t next, int64_t room) const {
  Guess guess;
  guess.tokens_[0] = next;
  const auto n = std::ssize(tokens);
  const int64_t most = std::min(length_, room);
  if (most < 1) return guess;
  const auto token = [&](int64_t i) { return tokens[static_cast<size_t>(i)]; };
  int64_t best = 0, found = -1;   // how many tokens are the same, and where what followed begins
  for (int64_t end = n - 1; end >= 0 && best < kLongest; --end) {
    if (token(end) != next) continue;
    int64_t same = 1;
    while (same < kLongest && end - same >= 0 && token(end - same) == token(n - same)) ++same;
    if (same > best && end + 1 < n) best = same, found = end + 1;
  }
  if (best < kShortest) return guess;
  while (guess.size_ < most && found < n) guess.tokens_[++guess.size_] = token(found++);
  return guess;
}

void Lookup::Learn(int64_t guessed, int64_t right) {
  if (guessed > 0) length_ = std::min(most_, right == guessed ? 2 * guessed : right + 1);
}

}  // namespace tenon::generate
