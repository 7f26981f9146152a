// Guesses what comes next from what stands in the sequence already: where its last tokens stood before, they were followed by
// something that may follow again. Answers that quote, edit or go on with a list are full of such places.
#ifndef TENON_GENERATE_LOOKUP_H_
#define TENON_GENERATE_LOOKUP_H_

#include <cstdint>
#include <span>

#include "generate/decoder.h"

namespace tenon::generate {

/// A token and what may follow it, for one step.
class Guess {
 public:
  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int32_t operator[](int64_t i) const { return tokens_[1 + i]; }
  std::span<const int32_t> step() const& { return {tokens_, static_cast<size_t>(1 + size_)}; }
  std::span<const int32_t> step() const&& = delete;   // of a guess that is gone

 private:
  friend class Lookup;
  int32_t tokens_[Decoder::kMostScored] = {};
  int64_t size_ = 0;
};

class Lookup {
 public:
  /// `most` tokens of a guess; 0: there are none.
  explicit Lookup(int64_t most);

  /// What may follow `tokens` and `next`, at most `room` tokens: what stood after the latest place that has the same last three
  /// tokens, or else two.
  Guess Find(std::span<const int32_t> tokens, int32_t next, int64_t room) const;
  /// Of a guess of `guessed` tokens, `right` were: the next one is twice as long when all were, else one longer than that.
  void Learn(int64_t guessed, int64_t right);

 private:
  int64_t most_, length_;
};

}  // namespace tenon::generate

#endif  // TENON_GENERATE_LOOKUP_H_
